/* The box that is selected in a flame graph, in words: what it is, its shares, and its source lines. */
import { useMemo } from 'preact/hooks';

import { amount, placeOf, shares } from '../flame/BoxTip.tsx';
import { changeOf, nameOf } from '../flame/painter.ts';
import { t } from '../i18n.ts';
import { linesOf } from '../model/functions.ts';
import type { Choice, Profile } from '../model/profile.ts';
import { functionKey, type Tree } from '../model/tree.ts';
import { Bar } from '../parts/Bar.tsx';
import { change, percent } from '../text.ts';

interface Props {
  tree: Tree;
  node: number;
  profile: Profile;
  choice: Choice;
  byLine: boolean;
  onSearch: (text: string) => void;
}

/* For a pattern to mean just these letters. */
const quoted = (text: string): string => `^${text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`;

function Lines({ profile, choice, tree, node }: Pick<Props, 'profile' | 'choice' | 'tree' | 'node'>) {
  const { frame } = tree.labels[tree.label[node]!]!;
  const key = frame ? functionKey(frame) : '';
  const lines = useMemo(() => (frame ? linesOf(profile, key, choice) : []), [profile, key, choice]);
  if (!lines.length || lines.every((row) => row.line <= 0)) return null;
  const all = tree.total[0]! || 1;
  return (
    <table class="functions lines">
      <caption>{t('lines')}</caption>
      <thead><tr><th class="number">{t('line')}</th><th class="number">{t('totalTime')}</th><th class="number">{t('ownTime')}</th></tr></thead>
      <tbody>
        {lines.slice(0, 200).map((row) => (
          <tr key={row.line}>
            <td class="number">{row.line}</td>
            <td><Bar share={row.total / all} text={percent(row.total / all)} tone="soft" /></td>
            <td><Bar share={row.self / all} text={percent(row.self / all)} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Details({ tree, node, profile, choice, byLine, onSearch }: Props) {
  if (node < 0 || node >= tree.label.length) return <aside class="details" id="flame-said"><p class="hint">{t('flameKeys')}</p></aside>;
  const label = tree.labels[tree.label[node]!]!;
  const { all, own, parent } = shares(tree, node);
  return (
    <aside class="details" aria-label={t('selected')}>
      <div id="flame-said" aria-live="polite">
        <h2>{nameOf(label, t('all'), byLine)}</h2>
        {label.frame && <p class="frame-place">{placeOf(label.frame, byLine)}</p>}
        <p class="facts">{amount(tree.total[node]!, profile.unit)}</p>
        <ul class="shares">
          <li>{t('ofAll', { percent: percent(all) })}</li>
          {node > 0 && <li>{t('ofParent', { percent: percent(parent) })}</li>}
          {own > 0 && <li>{t('ownShare', { percent: percent(own) })}</li>}
          {tree.before && <li class={changeOf(tree, node) > 0 ? 'more' : 'less'}>{change(changeOf(tree, node))}</li>}
        </ul>
      </div>
      {label.frame && <button type="button" onClick={() => onSearch(quoted(label.name))}>{t('searchThis')}</button>}
      <Lines profile={profile} choice={choice} tree={tree} node={node} />
    </aside>
  );
}
