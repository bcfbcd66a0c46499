/* Functions by own and total time; the flame graph's answer for who would rather read. */
import { useMemo, useState } from 'preact/hooks';

import { t } from '../i18n.ts';
import { functionTable } from '../model/functions.ts';
import type { Profile } from '../model/profile.ts';
import { Bar } from '../parts/Bar.tsx';
import { percent } from '../text.ts';

const SHOWN = 300;

export function FunctionTable({ profile }: { profile: Profile }) {
  const [byTotal, setByTotal] = useState(false);
  const [search, setSearch] = useState('');
  const table = useMemo(() => functionTable(profile), [profile]);
  const wanted = search.trim().toLowerCase();
  const rows = table.filter(({ frame }) => !wanted || `${frame.name} ${frame.file}`.toLowerCase().includes(wanted))
    .sort((a, b) => (byTotal ? b.total - a.total : b.self - a.self || b.total - a.total));
  const all = profile.total || 1;
  return (
    <>
      <div class="controls">
        <input type="search" placeholder={t('search')} aria-label={t('search')} value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </div>
      <table class="functions">
        <thead>
          <tr>
            <th class="number" aria-sort={byTotal ? 'none' : 'descending'}><button type="button" class="sort" onClick={() => setByTotal(false)}>{t('ownTime')}</button></th>
            <th class="number" aria-sort={byTotal ? 'descending' : 'none'}><button type="button" class="sort" onClick={() => setByTotal(true)}>{t('totalTime')}</button></th>
            <th>{t('functionName')}</th>
            <th>{t('file')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, SHOWN).map((row) => (
            <tr key={row.key}>
              <td><Bar share={row.self / all} text={percent(row.self / all)} /></td>
              <td><Bar share={row.total / all} text={percent(row.total / all)} tone="soft" /></td>
              <td class="frame-name">{row.frame.name}</td>
              <td class="frame-place">{row.frame.file}{row.frame.first > 0 && <b>:{row.frame.first}</b>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
