/* The box that is selected in a flame graph, in words: what it is, its shares, and its source lines. */
import { useMemo } from 'preact/hooks';

import { amount, placeOf, shares } from '../flame/BoxTip.tsx';
import { changeOf, nameOf } from '../flame/painter.ts';
import { t } from '../i18n.ts';
import { functionTable, linesOf } from '../model/functions.ts';
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

const HOTTEST = 15;

/* Until a box is chosen: where the time goes, in a list. */
function Hottest({ profile, choice, onSearch }: Pick<Props, 'profile' | 'choice' | 'onSearch'>) {
  const rows = useMemo(() => functionTable(profile, choice), [profile, choice]);
  const all = rows.reduce((sum, row) => sum + row.self, 0) || 1;
  return (
    <aside class="details" aria-label={t('hottest')}>
      <h2 class="plain">{t('hottest')}</h2>
      <ul class="hottest">
        {rows.filter((row) => row.self > 0).slice(0, HOTTEST).map((row) => (
          <li key={row.key}>
            <Bar share={row.self / all} text={percent(row.self / all)} />
            <button type="button" class="link" title={`${row.frame.file}:${row.frame.first}`} onClick={() => onSearch(quoted(row.frame.name))}>{row.frame.name}</button>
          </li>
        ))}
      </ul>
      <p class="hint" id="flame-said">{t('flameKeys')}</p>
    </aside>
  );
}

export function Details({ tree, node, profile, choice, byLine, onSearch }: Props) {
  if (node < 0 || node >= tree.label.length) return <Hottest profile={profile} choice={choice} onSearch={onSearch} />;
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
