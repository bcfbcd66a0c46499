/* A long list of which only the rows in sight exist. Each row says how high it is. */
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { useSize } from '../hooks.ts';
import { offsets, rowAt } from '../model/offsets.ts';

interface Props {
  count: number;
  height: (index: number) => number; /* pixels */
  of: unknown; /* what the heights follow from: they are asked for again when it changes */
  row: (index: number) => ComponentChildren;
  header?: ComponentChildren;
  class?: string;
  role: 'table' | 'grid';
  label: string;
  onHover?: (inside: boolean) => void;
  onKeyDown?: (event: KeyboardEvent) => void;
}

const SPARE = 6; /* rows beyond the edges, so that scrolling does not show gaps */

export function VirtualRows(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { height } = useSize(box);
  const [top, setTop] = useState(0);
  const tops = useMemo(() => offsets(props.count, props.height), [props.of]);
  const first = Math.max(0, rowAt(tops, top) - SPARE);
  const last = Math.min(props.count, rowAt(tops, top + height) + 1 + SPARE);

  /* A list that became shorter ends before the place one had scrolled to. */
  useEffect(() => {
    if (box.current) setTop(box.current.scrollTop);
  }, [props.count]);

  return (
    <div
      class={`rows ${props.class ?? ''}`}
      role={props.role}
      aria-label={props.label}
      aria-rowcount={props.count + 1}
      tabIndex={0}
      ref={box}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={props.onKeyDown}
      onMouseEnter={() => props.onHover?.(true)}
      onMouseLeave={() => props.onHover?.(false)}
    >
      {props.header}
      <div class="rows-room" role="rowgroup" style={{ height: `${tops[props.count]}px` }}>
        <div style={{ transform: `translateY(${tops[first]}px)` }} role="presentation">
          {Array.from({ length: Math.max(0, last - first) }, (_, i) => props.row(first + i))}
        </div>
      </div>
    </div>
  );
}
