/* Two recordings compared: what takes more of the time than before, and what less. */
import { useMemo, useState } from 'preact/hooks';

import { api, type RecordingInfo } from '../api.ts';
import { FlameGraph } from '../flame/FlameGraph.tsx';
import type { Widths } from '../flame/layout.ts';
import { useAsked } from '../hooks.ts';
import { t } from '../i18n.ts';
import { changes } from '../model/functions.ts';
import { readTree, type Profile } from '../model/profile.ts';
import { matcher } from '../model/search.ts';
import { buildDiff, plainTree } from '../model/tree.ts';
import { Loading, Problem } from '../parts/Problem.tsx';
import { Tabs } from '../parts/Tabs.tsx';
import { Toggle } from '../parts/Toggle.tsx';
import { setOption, to, type Route } from '../router.ts';
import { change, percent, when } from '../text.ts';
import { Details } from './Details.tsx';
import { SearchField } from './ProfileView.tsx';
import { titleOf } from './Recording.tsx';

interface Two {
  before: Profile;
  after: Profile;
  infoBefore: RecordingInfo;
  infoAfter: RecordingInfo;
}

async function both(before: string, after: string, signal: AbortSignal): Promise<Two> {
  const [a, b, infoBefore, infoAfter] = await Promise.all(
    [api.tree(before, signal), api.tree(after, signal), api.recording(before), api.recording(after)]);
  return { before: readTree(a), after: readTree(b), infoBefore, infoAfter };
}

function Changes({ two }: { two: Two }) {
  const rows = useMemo(() => changes(two.before, two.after), [two]);
  return (
    <table class="functions">
      <thead>
        <tr><th class="number">{t('change')}</th><th class="number">{t('before')}</th><th class="number">{t('after')}</th><th>{t('functionName')}</th><th>{t('file')}</th></tr>
      </thead>
      <tbody>
        {rows.slice(0, 300).map((row) => {
          const by = row.after - row.before;
          const tone = Math.abs(by) < 0.0005 ? '' : by > 0 ? 'more' : 'less';
          return (
            <tr key={row.key}>
              <td class={`number ${tone}`}>
                {change(by)}
                {row.before === 0 && row.after > 0 && <span class="chip more">{t('isNew')}</span>}
                {row.after === 0 && row.before > 0 && <span class="chip less">{t('isGone')}</span>}
              </td>
              <td class="number">{percent(row.before)}</td>
              <td class="number">{percent(row.after)}</td>
              <td class="frame-name">{row.frame.name}</td>
              <td class="frame-place">{row.frame.file}{row.frame.first > 0 && <b>:{row.frame.first}</b>}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Legend() {
  return (
    <p class="legend">
      <span class="swatch less" />{t('shrink')} <span class="swatch same" />{t('same')} <span class="swatch more" />{t('growth')}
    </p>
  );
}

function Flame({ two, route, dark }: { two: Two; route: Route; dark: boolean }) {
  const inverted = route.options.get('inverted') === '1';
  const widths: Widths = route.options.get('widths') === 'before' ? 'before' : 'after';
  const search = route.options.get('search') ?? '';
  const tree = useMemo(() => buildDiff(two.before, two.after, { ...plainTree, inverted }), [two, inverted]);
  const [place, setPlace] = useState({ tree, selected: -1, zoomed: 0 });
  const { selected, zoomed } = place.tree === tree ? place : { selected: -1, zoomed: 0 };
  const { matches } = useMemo(() => matcher(search), [search]);
  return (
    <>
      <div class="controls">
        <SearchField tree={tree} value={search} onChange={(text) => setOption('search', text)} />
        <Toggle on={inverted} text={t('inverted')} hint={t('invertedHint')} onChange={(on) => setOption('inverted', on ? '1' : null)} />
        <label class="choose">
          {t('widths')}
          <select value={widths} onChange={(event) => setOption('widths', event.currentTarget.value === 'before' ? 'before' : null)}>
            <option value="after">{t('after')}</option>
            <option value="before">{t('before')}</option>
          </select>
        </label>
        {zoomed > 0 && <button type="button" onClick={() => setPlace({ tree, selected, zoomed: 0 })}>{t('zoomOut')}</button>}
        <Legend />
      </div>
      <div class="flame-and-details">
        <FlameGraph
          tree={tree}
          widths={widths}
          dark={dark}
          byLine={false}
          matches={matches}
          selected={selected}
          zoomed={zoomed}
          unit={two.after.unit}
          onSelect={(node) => setPlace({ tree, selected: node, zoomed })}
          onZoom={(node) => setPlace({ tree, selected: node, zoomed: node })}
        />
        <Details tree={tree} node={selected} profile={two.after} choice={null} byLine={false} onSearch={(text) => setOption('search', text)} />
      </div>
    </>
  );
}

function Side({ word, info }: { word: string; info: RecordingInfo }) {
  return <span class="side">{word}: <a href={to('recording', info.id)}>{titleOf(info)}</a> <small>{when(info.created)}</small></span>;
}

export function Diff({ route, dark }: { route: Route; dark: boolean }) {
  const [before = '', after = ''] = route.parts;
  const { value, error, again } = useAsked(`${before} ${after}`, (signal) => both(before, after, signal));
  if (error) return <Problem error={error} retry={again} />;
  if (!value) return <Loading />;
  const tab = route.options.get('view') === 'functions' ? 'functions' : 'flame';
  const tabs = [{ id: 'flame', text: t('tabFlame') }, { id: 'functions', text: t('tabTable') }];
  return (
    <section class="page wide">
      <div class="head">
        <h1>{t('diffOf')}</h1>
        <p class="sides">
          <Side word={t('before')} info={value.infoBefore} />
          <Side word={t('after')} info={value.infoAfter} />
          <a class="button" href={to('diff', after, before)}>{t('swap')}</a>
          <a class="button" href={api.diffAddress(before, after, 'flamegraph')} download>{t('download')}</a>
        </p>
      </div>
      <Tabs label={t('views')} tabs={tabs} chosen={tab} onChoose={(id) => setOption('view', id === 'flame' ? null : id)}>
        {tab === 'flame' ? <Flame two={value} route={route} dark={dark} /> : <Changes two={value} />}
      </Tabs>
    </section>
  );
}
