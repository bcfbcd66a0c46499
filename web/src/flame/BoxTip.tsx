/* What stands beside the mouse over a box. */
import { t } from '../i18n.ts';
import type { Tree } from '../model/tree.ts';
import { change, percent, whole } from '../text.ts';
import { changeOf, nameOf } from './painter.ts';

export function placeOf(frame: { file: string; line: number; first: number }, byLine: boolean): string {
  const line = byLine ? frame.line : frame.first || frame.line;
  return line > 0 ? `${frame.file}:${line}` : frame.file;
}

/* "120 samples", "1.20 s": in the unit of the profile. */
export function amount(n: number, unit: 'samples' | 'nanoseconds'): string {
  return unit === 'samples' ? t('samples', { n: whole(n) }) : `${(n / 1e9).toFixed(n < 1e8 ? 3 : 2)} s`;
}

export function shares(tree: Tree, node: number): { all: number; parent: number; own: number } {
  const all = tree.total[0]! || 1;
  const parent = tree.parent[node]!;
  return {
    all: tree.total[node]! / all, own: tree.self[node]! / all,
    parent: parent < 0 ? 1 : tree.total[node]! / (tree.total[parent]! || 1),
  };
}

interface Props {
  tree: Tree;
  node: number;
  x: number;
  y: number;
  unit: 'samples' | 'nanoseconds';
  byLine: boolean;
}

export function BoxTip({ tree, node, x, y, unit, byLine }: Props) {
  const label = tree.labels[tree.label[node]!]!;
  const { all, own } = shares(tree, node);
  const right = x > innerWidth / 2;
  const below = y < innerHeight - 140;
  const place = {
    left: right ? 'auto' : `${x + 14}px`, right: right ? `${innerWidth - x + 14}px` : 'auto',
    top: below ? `${y + 16}px` : 'auto', bottom: below ? 'auto' : `${innerHeight - y + 16}px`,
  };
  return (
    <div class="tip" style={place} aria-hidden="true">
      <strong>{nameOf(label, t('all'), byLine)}</strong>
      {label.frame && <code>{placeOf(label.frame, byLine)}</code>}
      <span>
        {percent(all)} · {amount(tree.total[node]!, unit)}
        {own > 0 && ` · ${t('ownShare', { percent: percent(own) })}`}
      </span>
      {tree.before && (
        <span class={changeOf(tree, node) > 0 ? 'more' : 'less'}>
          {change(changeOf(tree, node))} ({t('beforeShare', { percent: percent(tree.before[node]! / (tree.total[0]! || 1)) })})
        </span>
      )}
    </div>
  );
}
