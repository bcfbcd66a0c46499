/* A finished profile: flame graph, functions, speedscope, files. */
import { useMemo, useRef, useState } from 'preact/hooks';

import { api, type Info, type RecordingInfo } from '../api.ts';
import { FlameGraph } from '../flame/FlameGraph.tsx';
import { useKey } from '../hooks.ts';
import { t } from '../i18n.ts';
import type { Choice, Owner, Profile } from '../model/profile.ts';
import { matcher } from '../model/search.ts';
import { buildTree, matchedShare, type Split, type Tree, type TreeOptions } from '../model/tree.ts';
import { Tabs } from '../parts/Tabs.tsx';
import { Toggle } from '../parts/Toggle.tsx';
import { setOption, type Route } from '../router.ts';
import { bytes, percent } from '../text.ts';
import { Details } from './Details.tsx';
import { FunctionTable } from './FunctionTable.tsx';
import { Viewer } from './Viewer.tsx';

interface Props {
  profile: Profile;
  info: RecordingInfo;
  server: Info | null;
  route: Route;
  dark: boolean;
}

const ownerText = (o: Owner): string => [o.node, o.process, o.thread].filter(Boolean).join(' › ');

/* Whose stacks: "all", each process if there are several, each thread. */
function choices(profile: Profile): { text: string; choice: Choice }[] {
  const one = { node: new Set(profile.owners.map((o) => o.node)).size < 2, process: new Set(profile.owners.map((o) => `${o.node}\0${o.process}`)).size < 2 };
  const threads = profile.owners.map((owner) => ({
    text: one.process ? owner.thread : one.node ? `${owner.process} › ${owner.thread}` : ownerText(owner), choice: owner as Choice,
  }));
  const processes = one.process ? [] : [...new Map(profile.owners.map((o) => [`${o.node}\0${o.process}`, o])).values()].map((o) => (
    { text: one.node ? o.process : `${o.node} › ${o.process}`, choice: { node: o.node, process: o.process } }));
  return [{ text: t('allThreads'), choice: null }, ...processes, ...threads];
}

/* Splitting by what there is one of says nothing. */
function splits(profile: Profile): Split[] {
  const several = (of: (o: Owner) => string): boolean => new Set(profile.owners.map(of)).size > 1;
  const found: Split[] = [];
  if (several((o) => o.node)) found.push('node');
  if (several((o) => `${o.node}\0${o.process}`)) found.push('process');
  if (several(ownerText)) found.push('thread');
  return found;
}

const splitWord = { node: 'ofNode', process: 'ofProcess', thread: 'ofThread' } as const;

export function SearchField({ tree, value, onChange }: { tree: Tree; value: string; onChange: (text: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  useKey('/', () => field.current?.focus());
  const found = useMemo(() => {
    const { matches, bad } = matcher(value);
    if (bad) return t('badPattern');
    if (!matches) return '';
    const { boxes, weight } = matchedShare(tree, matches);
    return t('matched', { percent: percent(weight / (tree.total[0]! || 1)), n: boxes });
  }, [tree, value]);
  return (
    <span class="search">
      <input ref={field} type="search" placeholder={t('search')} aria-label={t('search')} value={value} onInput={(event) => onChange(event.currentTarget.value)} />
      <output class="search-found">{found}</output>
    </span>
  );
}

function Flame({ profile, route, dark }: Props) {
  const offered = useMemo(() => choices(profile), [profile]);
  const splittable = useMemo(() => splits(profile), [profile]);
  const split = splittable.filter((kind) => (route.options.get('split') ?? '').split(' ').includes(kind));
  const inverted = route.options.get('inverted') === '1';
  const byLine = route.options.get('lines') === '1';
  const whose = Math.min(offered.length - 1, Number(route.options.get('whose')) || 0);
  const search = route.options.get('search') ?? '';
  const options: TreeOptions = { split, inverted, byLine, choice: offered[whose]!.choice };
  const tree = useMemo(() => buildTree(profile, options), [profile, split.join(), inverted, byLine, whose]);
  const [place, setPlace] = useState({ tree, selected: -1, zoomed: 0 });
  const { selected, zoomed } = place.tree === tree ? place : { selected: -1, zoomed: 0 };
  const { matches } = useMemo(() => matcher(search), [search]);
  const toggleSplit = (kind: Split) => (on: boolean): void => {
    setOption('split', splittable.filter((k) => (k === kind ? on : split.includes(k))).join(' '));
  };
  return (
    <>
      <div class="controls">
        <SearchField tree={tree} value={search} onChange={(text) => setOption('search', text)} />
        <Toggle on={inverted} text={t('inverted')} hint={t('invertedHint')} onChange={(on) => setOption('inverted', on ? '1' : null)} />
        <Toggle on={byLine} text={t('byLines')} hint={t('byLinesHint')} onChange={(on) => setOption('lines', on ? '1' : null)} />
        {splittable.length > 0 && (
          <span class="choose" role="group" aria-label={t('splitBy')}>
            {t('splitBy')}
            {splittable.map((kind) => <Toggle key={kind} on={split.includes(kind)} text={t(splitWord[kind])} onChange={toggleSplit(kind)} />)}
          </span>
        )}
        {offered.length > 2 && (
          <label class="choose">
            {t('whose')}
            <select value={String(whose)} onChange={(event) => setOption('whose', event.currentTarget.value === '0' ? null : event.currentTarget.value)}>
              {offered.map(({ text }, i) => <option key={i} value={String(i)}>{text}</option>)}
            </select>
          </label>
        )}
        {zoomed > 0 && <button type="button" onClick={() => setPlace({ tree, selected, zoomed: 0 })}>{t('zoomOut')}</button>}
      </div>
      <div class="flame-and-details">
        <FlameGraph
          tree={tree}
          dark={dark}
          byLine={byLine}
          matches={matches}
          selected={selected}
          zoomed={zoomed}
          unit={profile.unit}
          onSelect={(node) => setPlace({ tree, selected: node, zoomed })}
          onZoom={(node) => setPlace({ tree, selected: node, zoomed: node })}
        />
        <Details tree={tree} node={selected} profile={profile} choice={options.choice} byLine={byLine} onSearch={(text) => setOption('search', text)} />
      </div>
    </>
  );
}

function Files({ info, server }: { info: RecordingInfo; server: Info | null }) {
  return (
    <ul class="files">
      {server?.formats.map((format) => (
        <li key={format.name}>
          <a class="button" href={api.resultAddress(info.id, format.name, { download: 1 })} download>{format.name}</a>
          <span>{format.summary}</span>
          {format.name === 'flamegraph' && <a href={api.resultAddress(info.id, format.name)} target="_blank" rel="noreferrer">{t('openFull')}</a>}
          {format.name === 'scry' && info.size > 0 && <span class="facts">{bytes(info.size)}</span>}
        </li>
      ))}
    </ul>
  );
}

export function ProfileView(props: Props) {
  const { route, info, profile } = props;
  const tab = route.options.get('view') ?? 'flame';
  const tabs = [
    { id: 'flame', text: t('tabFlame') }, { id: 'functions', text: t('tabTable') }, { id: 'time', text: t('tabTime') },
    { id: 'sandwich', text: t('tabSandwich') }, { id: 'files', text: t('tabFiles') },
  ];
  return (
    <Tabs label={t('views')} tabs={tabs} chosen={tab} onChoose={(id) => setOption('view', id === 'flame' ? null : id)}>
      {tab === 'functions' && <FunctionTable profile={profile} />}
      {tab === 'time' && <Viewer id={info.id} view="time-ordered" title={t('tabTime')} />}
      {tab === 'sandwich' && <Viewer id={info.id} view="sandwich" title={t('tabSandwich')} />}
      {tab === 'files' && <Files info={info} server={props.server} />}
      {tab === 'flame' && <Flame {...props} />}
    </Tabs>
  );
}
