/* Nodes and their Python processes, live. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { api, type Info, type NodeInfo, type ProcessInfo } from '../api.ts';
import { useKey, useMedia, usePolled } from '../hooks.ts';
import { count, t } from '../i18n.ts';
import { arrange, filtered, inOrderOf, keyOf, sorted, type Grouping, type ListOptions, type Row, type SortKey } from '../model/rows.ts';
import { Loading, Nothing, Problem } from '../parts/Problem.tsx';
import { VirtualRows } from '../parts/VirtualRows.tsx';
import { keepChoice, keptChoice } from '../settings.ts';
import { whole } from '../text.ts';
import { GroupRow, HeaderRow, ProcessRow } from './ClusterRow.tsx';
import { RecordDialog, type RecordTarget } from './RecordDialog.tsx';

/* Up and down lead to the same control of the next row. */
function rowKeys(event: KeyboardEvent): void {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
  const at = event.target as HTMLElement;
  const from = at.closest('.row');
  const to = event.key === 'ArrowDown' ? from?.nextElementSibling : from?.previousElementSibling;
  if (!from || !to) return;
  const controls = (row: Element): HTMLElement[] => [...row.querySelectorAll<HTMLElement>('input, a, button')];
  const next = controls(to);
  next[Math.min(next.length - 1, Math.max(0, controls(from).indexOf(at)))]?.focus();
  event.preventDefault();
}

interface Listing {
  nodes: NodeInfo[];
  processes: ProcessInfo[];
}

async function listing(signal: AbortSignal): Promise<Listing> {
  const [{ nodes }, { processes }] = await Promise.all([api.nodes(signal), api.processes(signal)]);
  return { nodes, processes };
}

function firstGrouping(): Grouping {
  const kept = keptChoice('grouping');
  return kept === 'task' || kept === 'none' ? kept : 'node';
}

/* Sorted; but while the mouse is over the list the rows stay where they are, so that none moves away from under it. */
function useOrder(processes: ProcessInfo[], options: ListOptions, resting: boolean): ProcessInfo[] {
  const order = useRef<{ by: string; keys: string[] }>({ by: '', keys: [] });
  return useMemo(() => {
    const by = `${options.sort}/${options.down}/${options.filter}/${options.grouping}`;
    const keep = resting && order.current.by === by;
    const list = keep ? inOrderOf(processes, order.current.keys) : sorted(processes, options.sort, options.down);
    order.current = { by, keys: list.map(keyOf) };
    return list;
  }, [processes, options.sort, options.down, options.filter, options.grouping]);
}

/* Who is selected; those that ended are not any more. */
function useSelection(processes: ProcessInfo[] | null) {
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  const last = useRef(-1);
  useEffect(() => {
    if (!processes || !keys.size) return;
    const alive = new Set(processes.map(keyOf));
    const left = [...keys].filter((key) => alive.has(key));
    if (left.length !== keys.size) setKeys(new Set(left));
  }, [processes]);
  const toggle = (rows: Row[], index: number, range: boolean): void => {
    const next = new Set(keys);
    const on = !next.has(keyOf(rows[index]!.process!));
    const from = range && last.current >= 0 ? Math.min(last.current, index) : index;
    const until = range && last.current >= 0 ? Math.max(last.current, index) : index;
    for (const { process } of rows.slice(from, until + 1)) {
      if (process && on) next.add(keyOf(process));
      else if (process) next.delete(keyOf(process));
    }
    last.current = index;
    setKeys(next);
  };
  return { keys, setKeys, toggle };
}

export function Cluster({ info }: { info: Info | null }) {
  const { value, error } = usePolled(listing, 2000);
  const [options, setOptions] = useState<ListOptions>(
    { filter: '', sort: 'cpu', down: true, grouping: firstGrouping(), folded: new Set() });
  const [resting, setResting] = useState(false);
  const [asked, setAsked] = useState<RecordTarget[] | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const narrow = useMedia('(max-width: 760px)');
  useKey('/', () => field.current?.focus());

  const processes = value?.processes ?? [];
  const found = useMemo(() => filtered(processes, options.filter), [value, options.filter]);
  const ordered = useOrder(found, options, resting);
  const rows = useMemo(() => arrange(ordered, value?.nodes ?? [], options), [ordered, value, options]);
  const shape = useMemo(() => ({}), [rows, narrow]);
  const { keys, setKeys, toggle } = useSelection(value?.processes ?? null);

  const sortBy = (sort: SortKey): void => setOptions((o) => (
    { ...o, sort, down: o.sort === sort ? !o.down : ['cpu', 'memory', 'threads'].includes(sort) }));
  const fold = (key: string): void => setOptions((o) => {
    const folded = new Set(o.folded);
    if (!folded.delete(key)) folded.add(key);
    return { ...o, folded };
  });
  const group = (grouping: Grouping): void => {
    keepChoice('grouping', grouping);
    setOptions((o) => ({ ...o, grouping, folded: new Set() }));
  };
  const record = (p: ProcessInfo): void => setAsked([{ node: p.node, pid: p.pid, title: p.title || p.command }]);
  const chosen = processes.filter((p) => keys.has(keyOf(p)));

  if (!value) return error ? <Problem error={error} retry={() => location.reload()} /> : <Loading />;
  return (
    <section class="cluster">
      <div class="head">
        <h1>{t('cluster')}</h1>
        <p class="facts" role="status">
          {count('nodes', value.nodes.length)} · {count('processes', processes.length)}
          {found.length !== processes.length && ` · ${t('shown', { n: whole(found.length), all: whole(processes.length) })}`}
          <span class={`pulse ${error ? 'lost' : ''}`}>{error ? t('offline') : t('live')}</span>
        </p>
        <div class="controls">
          <input
            ref={field}
            type="search"
            class="filter"
            placeholder={t('filter')}
            aria-label={t('filterLabel')}
            value={options.filter}
            onInput={(event) => setOptions({ ...options, filter: event.currentTarget.value })}
          />
          <label class="choose">
            {t('groupBy')}
            <select value={options.grouping} onChange={(event) => group(event.currentTarget.value as Grouping)}>
              <option value="node">{t('byNode')}</option>
              <option value="task">{t('byTask')}</option>
              <option value="none">{t('byNothing')}</option>
            </select>
          </label>
        </div>
      </div>
      <VirtualRows
        class={narrow ? 'cards' : 'table'}
        role="table"
        label={t('processTable')}
        count={rows.length}
        height={(i) => (narrow ? (rows[i]!.process ? 112 : 76) : 42)}
        of={shape}
        onHover={setResting}
        onKeyDown={rowKeys}
        header={(
          <HeaderRow
            options={options}
            onSort={sortBy}
            all={found.length > 0 && keys.size >= found.length}
            onAll={(on) => setKeys(on ? new Set(found.map(keyOf)) : new Set())}
          />
        )}
        row={(i) => {
          const { group: of, process } = rows[i]!;
          return process ? (
            <ProcessRow
              key={keyOf(process)}
              index={i}
              process={process}
              showNode={options.grouping !== 'node' && value.nodes.length > 1}
              selected={keys.has(keyOf(process))}
              onSelect={(range) => toggle(rows, i, range)}
              onRecord={record}
            />
          ) : <GroupRow key={`group ${of!.key}`} index={i} group={of!} grouping={options.grouping} folded={options.folded.has(of!.key)} onFold={fold} />;
        }}
      />
      {!processes.length && <Nothing title={t('noProcesses')} hint={t('noProcessesHint')} />}
      {processes.length > 0 && !found.length && <Nothing title={t('noMatch')} />}
      {chosen.length > 0 && (
        <div class="selection" role="region" aria-label={count('selected', chosen.length)}>
          <span role="status">{count('selected', chosen.length)}</span>
          <button type="button" onClick={() => setKeys(new Set())}>{t('clear')}</button>
          <button type="button" class="primary" onClick={() => setAsked(chosen.map((p) => ({ node: p.node, pid: p.pid, title: p.title || p.command })))}>
            {t('mergedProfile')}
          </button>
        </div>
      )}
      {asked && info && <RecordDialog info={info} targets={asked} onClose={() => setAsked(null)} />}
    </section>
  );
}
