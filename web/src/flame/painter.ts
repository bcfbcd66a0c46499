/* Draws what is seen of a flame graph onto a canvas. Text is drawn as text: names cannot become anything else here. */
import { highlight, paintOf, paintOfChange, type Paint } from './colors.ts';
import { visit, type Box, type Layout, type Window } from './layout.ts';
import type { Label, Tree } from '../model/tree.ts';

export const ROW = 21;
const GAP = 1;
const PADDING = 5;
const FONT = '12px ui-sans-serif, system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

export interface Scene {
  layout: Layout;
  window: Window;
  width: number;
  height: number;
  scroll: number;
  dark: boolean;
  selected: number;
  hovered: number;
  matches: ((label: Label) => boolean) | null;
  rootName: string;
  byLine: boolean;
}

export function nameOf(label: Label, rootName: string, byLine: boolean): string {
  if (label.kind === 'root') return rootName;
  const { frame } = label;
  if (!frame) return label.name;
  return byLine && frame.line > 0 ? `${label.name}:${frame.line}` : label.name;
}

/* Measuring text is what costs most; names come again and again. */
const widths = new Map<string, number>();
function widthOf(context: CanvasRenderingContext2D, text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size > 20000) widths.clear();
    width = context.measureText(text).width;
    widths.set(text, width);
  }
  return width;
}

function fit(context: CanvasRenderingContext2D, text: string, room: number): string {
  const short = text.length > 400 ? text.slice(0, 400) : text;
  const width = widthOf(context, short);
  if (width <= room) return short;
  const keep = Math.floor((short.length * (room - 10)) / width);
  return keep < 1 ? '' : short.slice(0, keep) + '…';
}

export function changeOf(tree: Tree, node: number): number {
  const all = tree.total[0]! || tree.before![0]! || 1;
  return (tree.total[node]! - tree.before![node]!) / all;
}

class Brush {
  private readonly paints: (Paint | undefined)[];
  private readonly hits: Uint8Array | null;
  private readonly scene: Scene;
  private readonly context: CanvasRenderingContext2D;

  constructor(context: CanvasRenderingContext2D, scene: Scene) {
    const { labels } = scene.layout.tree;
    this.context = context;
    this.scene = scene;
    this.paints = new Array<Paint | undefined>(labels.length);
    this.hits = scene.matches ? Uint8Array.from(labels, (label) => (label.kind !== 'root' && scene.matches!(label) ? 1 : 0)) : null;
  }

  private paint(node: number): Paint {
    const { tree } = this.scene.layout;
    const label = tree.label[node]!;
    if (this.hits?.[label]) return highlight(this.scene.dark);
    if (tree.before && node > 0) return paintOfChange(changeOf(tree, node), this.scene.dark);
    return (this.paints[label] ??= paintOf(tree.labels[label]!, this.scene.dark));
  }

  box({ node, x, width }: Box): void {
    const { context, scene } = this;
    const { tree } = scene.layout;
    const y = tree.depth[node]! * ROW - scene.scroll;
    const w = width > 3 ? width - GAP : width;
    const { fill, text } = this.paint(node);
    const faded = this.hits !== null && !this.hits[tree.label[node]!];
    context.globalAlpha = faded ? 0.38 : 1;
    context.fillStyle = fill;
    if (w > 6) {
      context.beginPath();
      context.roundRect(x, y, w, ROW - GAP, 3);
      context.fill();
    } else context.fillRect(x, y, w, ROW - GAP);
    if (w > 26) this.label(node, x, y, w, text, faded);
    context.globalAlpha = 1;
    if (node === scene.selected || node === scene.hovered) this.outline(x, y, w, node === scene.selected);
  }

  private label(node: number, x: number, y: number, w: number, color: string, faded: boolean): void {
    const { context, scene } = this;
    const { tree } = scene.layout;
    const text = fit(context, nameOf(tree.labels[tree.label[node]!]!, scene.rootName, scene.byLine), w - 2 * PADDING);
    context.globalAlpha = faded ? 0.7 : 1;
    context.fillStyle = color;
    context.fillText(text, x + PADDING, y + (ROW - GAP) / 2 + 0.5);
  }

  private outline(x: number, y: number, w: number, strong: boolean): void {
    const { context, scene } = this;
    context.strokeStyle = scene.dark ? '#ffffff' : '#14181c';
    context.lineWidth = strong ? 2 : 1;
    context.strokeRect(x + 1, y + 1, Math.max(1, w - 2), ROW - GAP - 2);
  }
}

export function draw(context: CanvasRenderingContext2D, scene: Scene, ratio: number): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, scene.width, scene.height);
  context.font = FONT;
  context.textBaseline = 'middle';
  const brush = new Brush(context, scene);
  const rows = { first: Math.floor(scene.scroll / ROW), last: Math.ceil((scene.scroll + scene.height) / ROW) };
  visit(scene.layout, scene.window, scene.width, rows, (box) => brush.box(box));
}
