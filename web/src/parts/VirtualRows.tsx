/* A long list of which only the rows in sight exist. All rows are equally high. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { useSize } from '../hooks.ts';

interface Props {
  count: number;
  height: number; /* of a row, pixels */
  row: (index: number) => ComponentChildren;
  header?: ComponentChildren;
  class?: string;
  role: 'table' | 'grid';
  label: string;
  onHover?: (inside: boolean) => void;
}

const SPARE = 6; /* rows beyond the edges, so that scrolling does not show gaps */

export function VirtualRows(props: Props) {
  const { ref: measure, height } = useSize<HTMLDivElement>();
  const box = useRef<HTMLDivElement | null>(null);
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / props.height) - SPARE);
  const last = Math.min(props.count, Math.ceil((top + height) / props.height) + SPARE);

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
      ref={(element) => { box.current = element; measure(element); }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onMouseEnter={() => props.onHover?.(true)}
      onMouseLeave={() => props.onHover?.(false)}
    >
      {props.header}
      <div class="rows-room" role="rowgroup" style={{ height: `${props.count * props.height}px` }}>
        <div style={{ transform: `translateY(${first * props.height}px)` }} role="presentation">
          {Array.from({ length: Math.max(0, last - first) }, (_, i) => props.row(first + i))}
        </div>
      </div>
    </div>
  );
}
