/* Where each box of a call tree lies. Positions are shares of the whole, computed once per tree; zooming only moves the
 * window through which they are seen. */
import type { Tree } from '../model/tree.ts';

export type Widths = 'after' | 'before';

export interface Layout {
  tree: Tree;
  start: Float64Array;
  width: Float64Array;
}

export interface Window {
  from: number;
  to: number;
}

export const WHOLE: Window = { from: 0, to: 1 };

export function layOut(tree: Tree, widths: Widths = 'after'): Layout {
  const size = widths === 'before' && tree.before ? tree.before : tree.total;
  const n = tree.label.length;
  const all = size[0]! || 1;
  const start = new Float64Array(n);
  const width = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    width[i] = size[i]! / all;
    let x = start[i]!;
    const first = tree.firstChild[i]!;
    for (let k = first; first >= 0 && k < first + tree.childCount[i]!; k++) {
      start[k] = x;
      x += size[k]! / all;
    }
  }
  return { tree, start, width };
}

export const windowOf = (layout: Layout, node: number): Window =>
  ({ from: layout.start[node]!, to: layout.start[node]! + layout.width[node]! });

export interface Box {
  node: number;
  x: number; /* pixels, cut at the edges of the window */
  width: number;
}

const SMALLEST = 0.4; /* pixels */

/* Calls back with every box that can be seen, outer ones first. Rows out of sight are walked through, not reported. */
export function visit(layout: Layout, window: Window, pixels: number, rows: { first: number; last: number }, see: (box: Box) => void): void {
  const { tree, start, width } = layout;
  const scale = pixels / (window.to - window.from);
  const waiting = [0];
  while (waiting.length) {
    const node = waiting.pop()!;
    const left = Math.max(start[node]!, window.from);
    const right = Math.min(start[node]! + width[node]!, window.to);
    if ((right - left) * scale < SMALLEST || tree.depth[node]! > rows.last) continue;
    if (tree.depth[node]! >= rows.first) see({ node, x: (left - window.from) * scale, width: (right - left) * scale });
    const first = tree.firstChild[node]!;
    for (let k = first + tree.childCount[node]! - 1; first >= 0 && k >= first; k--) waiting.push(k);
  }
}

/* The box at a place, or -1. */
export function boxAt(layout: Layout, window: Window, pixels: number, x: number, row: number): number {
  const { tree, start, width } = layout;
  const at = window.from + (x / pixels) * (window.to - window.from);
  let node = 0;
  while (tree.depth[node]! < row) {
    const first = tree.firstChild[node]!;
    let next = -1;
    for (let k = first; first >= 0 && k < first + tree.childCount[node]!; k++) {
      if (at >= start[k]! && at < start[k]! + width[k]!) next = k;
    }
    if (next < 0) return -1;
    node = next;
  }
  return node;
}

/* Where an arrow key leads from a box; the same box if nowhere. */
export function step(layout: Layout, node: number, key: string): number {
  const { tree } = layout;
  const parent = tree.parent[node]!;
  if (key === 'ArrowUp') return parent < 0 ? node : parent;
  if (key === 'ArrowDown') {
    const first = tree.firstChild[node]!;
    return first >= 0 && layout.width[first]! > 0 ? first : node;
  }
  if (parent < 0) return node;
  const next = node + (key === 'ArrowRight' ? 1 : -1);
  const first = tree.firstChild[parent]!;
  const inside = next >= first && next < first + tree.childCount[parent]!;
  return inside && layout.width[next]! > 0 ? next : node;
}
