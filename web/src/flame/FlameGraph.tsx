/* The flame graph: a canvas in a box that scrolls, driven by mouse, touch and keyboard. What it shows is said again in
 * words below it, for who cannot see it and for tests. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { useSize } from '../hooks.ts';
import { t } from '../i18n.ts';
import { pathTo, type Label, type Tree } from '../model/tree.ts';
import { boxAt, layOut, step, WHOLE, windowOf, type Widths, type Window } from './layout.ts';
import { draw, nameOf, ROW } from './painter.ts';
import { BoxTip } from './BoxTip.tsx';

interface Props {
  tree: Tree;
  widths?: Widths;
  dark: boolean;
  byLine: boolean;
  matches: ((label: Label) => boolean) | null;
  selected: number;
  zoomed: number;
  onSelect: (node: number) => void;
  onZoom: (node: number) => void;
  unit: 'samples' | 'nanoseconds';
}

const still = (): boolean => matchMedia('(prefers-reduced-motion: reduce)').matches;

/* The window on its way to where it should be. */
function useWindow(target: Window, tree: Tree): Window {
  const [window, setWindow] = useState(target);
  const now = useRef(window);
  const of = useRef(tree);
  useEffect(() => {
    const from = now.current;
    const jump = of.current !== tree || still();
    of.current = tree;
    const begun = performance.now();
    let frame = 0;
    const turn = (): void => {
      const share = jump ? 1 : Math.min(1, (performance.now() - begun) / 180);
      const eased = 1 - (1 - share) ** 3;
      now.current = share === 1 ? target :
        { from: from.from + (target.from - from.from) * eased, to: from.to + (target.to - from.to) * eased };
      setWindow(now.current);
      if (share < 1) frame = requestAnimationFrame(turn);
    };
    turn();
    return () => cancelAnimationFrame(frame);
  }, [target.from, target.to, tree]);
  return window;
}

interface Tip {
  node: number;
  x: number;
  y: number;
}

export function FlameGraph(props: Props) {
  const { tree, dark, matches, byLine, selected, zoomed, onSelect, onZoom } = props;
  const layout = useMemo(() => layOut(tree, props.widths), [tree, props.widths]);
  const scroller = useRef<HTMLDivElement>(null);
  const { width, height } = useSize(scroller);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [scroll, setScroll] = useState(0);
  const [tip, setTip] = useState<Tip | null>(null);
  const window = useWindow(zoomed > 0 ? windowOf(layout, zoomed) : WHOLE, tree);

  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!canvas.current || !context || !width || !height) return;
    const ratio = devicePixelRatio || 1;
    canvas.current.width = Math.round(width * ratio);
    canvas.current.height = Math.round(height * ratio);
    draw(context, {
      layout, window, width, height, scroll, dark, selected, matches, byLine, hovered: tip?.node ?? -1, rootName: t('all'),
    }, ratio);
  });

  /* A box chosen by keyboard comes into sight. */
  useEffect(() => {
    const box = scroller.current;
    if (!box || selected < 0) return;
    const top = tree.depth[selected]! * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
  }, [selected]);

  const under = (event: MouseEvent): number => {
    const area = canvas.current!.getBoundingClientRect();
    return boxAt(layout, window, width, event.clientX - area.left, Math.floor((event.clientY - area.top + scroll) / ROW));
  };
  const moved = (event: MouseEvent): void => {
    const node = under(event);
    setTip(node < 0 ? null : { node, x: event.clientX, y: event.clientY });
  };
  const clicked = (event: MouseEvent): void => {
    const node = under(event);
    if (node < 0) return;
    onSelect(node);
    onZoom(node);
  };
  const pressed = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' || event.key === ' ') onZoom(Math.max(0, selected));
    else if (event.key === 'Escape') onZoom(0);
    else if (event.key.startsWith('Arrow')) onSelect(selected < 0 ? 0 : step(layout, selected, event.key));
    else return;
    event.preventDefault();
  };

  return (
    <div class="flame">
      <div
        class="flame-scroll"
        style={{ height: `max(240px, min(${tree.height * ROW + 4}px, 100dvh - 300px))` }}
        role="application"
        aria-label={t('flameLabel')}
        aria-describedby="flame-said"
        tabIndex={0}
        ref={scroller}
        onScroll={(event) => setScroll(event.currentTarget.scrollTop)}
        onKeyDown={pressed}
        onFocus={() => { if (selected < 0) onSelect(Math.max(0, zoomed)); }}
      >
        <div class="flame-room" style={{ height: `${tree.height * ROW}px` }}>
          <canvas
            ref={canvas}
            style={{ width: `${width}px`, height: `${height}px` }}
            onMouseMove={moved}
            onMouseLeave={() => setTip(null)}
            onClick={clicked}
          />
        </div>
      </div>
      <Path tree={tree} node={zoomed} byLine={byLine} onZoom={onZoom} />
      {tip && tip.node < tree.label.length && <BoxTip tree={tree} node={tip.node} x={tip.x} y={tip.y} unit={props.unit} byLine={byLine} />}
    </div>
  );
}

/* The way down to where one has zoomed in; each step leads back there. */
function Path({ tree, node, byLine, onZoom }: { tree: Tree; node: number; byLine: boolean; onZoom: (node: number) => void }) {
  const path = pathTo(tree, Math.max(0, node));
  const shown = path.length > 6 ? [path[0]!, -1, ...path.slice(-4)] : path;
  return (
    <nav class="flame-path" aria-label={t('zoomOut')}>
      {shown.map((at, i) => (at < 0 ? <span key="gap">…</span> : (
        <button key={at} type="button" class="link" aria-current={i === shown.length - 1 ? 'location' : undefined} onClick={() => onZoom(at)}>
          {nameOf(tree.labels[tree.label[at]!]!, t('all'), byLine)}
        </button>
      )))}
    </nav>
  );
}
