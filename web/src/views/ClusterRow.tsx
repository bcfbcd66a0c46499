/* The rows of the cluster page. On a narrow screen the same cells are laid out as a card (style/table.css). */
import type { ProcessInfo } from '../api.ts';
import { count, t } from '../i18n.ts';
import type { Group, Grouping, ListOptions, SortKey } from '../model/rows.ts';
import { Bar } from '../parts/Bar.tsx';
import { to } from '../router.ts';
import { bytes, shortCommand } from '../text.ts';
import type { Word } from '../words.ts';

const columns: { sort: SortKey; word: Word; kind: string }[] = [
  { sort: 'pid', word: 'pid', kind: 'pid' },
  { sort: 'title', word: 'process', kind: 'what' },
  { sort: 'cpu', word: 'cpu', kind: 'cpu' },
  { sort: 'memory', word: 'memory', kind: 'memory' },
  { sort: 'threads', word: 'threads', kind: 'threads' },
  { sort: 'wait', word: 'waiting', kind: 'wait' },
  { sort: 'python', word: 'python', kind: 'python' },
  { sort: 'user', word: 'user', kind: 'user' },
  { sort: 'container', word: 'container', kind: 'where' },
];

interface HeaderProps {
  options: ListOptions;
  onSort: (key: SortKey) => void;
  all: boolean;
  onAll: (on: boolean) => void;
}

export function HeaderRow({ options, onSort, all, onAll }: HeaderProps) {
  return (
    <div class="row header" role="rowgroup">
      <div role="row" class="cells" aria-rowindex={1}>
        <span role="columnheader" class="c-check">
          <input type="checkbox" aria-label={t('selectAll')} checked={all} onChange={(event) => onAll(event.currentTarget.checked)} />
        </span>
        {columns.map(({ sort, word, kind }) => (
          <span key={kind} role="columnheader" class={`c-${kind}`} aria-sort={options.sort === sort ? (options.down ? 'descending' : 'ascending') : 'none'}>
            <button type="button" class="sort" onClick={() => onSort(sort)}>{t(word)}</button>
          </span>
        ))}
        <span role="columnheader" class="c-actions">{t('actions')}</span>
      </div>
    </div>
  );
}

interface GroupProps {
  index: number;
  group: Group;
  grouping: Grouping;
  folded: boolean;
  onFold: (key: string) => void;
}

const stateWord = { up: 'nodeUp', slow: 'nodeSlow', down: 'nodeDown' } as const;

function nodeFacts(group: Group): string {
  const { node } = group;
  if (!node || group.state === 'down' || !node.memory_total) return '';
  return t('cpusMemory', {
    load: node.load.toFixed(1), cpus: node.cpus, used: bytes(node.memory_total - node.memory_available), all: bytes(node.memory_total),
  });
}

export function GroupRow({ index, group, grouping, folded, onFold }: GroupProps) {
  const name = group.name || t('noTask');
  const facts = group.error ?? nodeFacts(group);
  return (
    <div class={`row group ${group.state}`} role="row" aria-rowindex={index + 2}>
      <span role="cell" class="group-cell" aria-colspan={11}>
        <button type="button" class="fold" aria-expanded={!folded} aria-label={t(folded ? 'expand' : 'collapse', { name })} onClick={() => onFold(group.key)} />
        <strong>{name}</strong>
        {grouping === 'node' && <span class={`chip ${group.state}`}>{group.node?.self && group.state === 'up' ? t('here') : t(stateWord[group.state])}</span>}
        <span class="group-facts">
          {group.processes > 0 && `${count('processes', group.processes)} · ${t('cpu')} ${Math.round(group.cpu)} % · ${bytes(group.rss)}`}
        </span>
        <span class="group-more">{facts}</span>
      </span>
    </div>
  );
}

interface ProcessProps {
  index: number;
  process: ProcessInfo;
  showNode: boolean;
  selected: boolean;
  onSelect: (range: boolean) => void;
  onRecord: (process: ProcessInfo) => void;
}

function Where({ process }: { process: ProcessInfo }) {
  const { pod } = process;
  if (!pod) return <span title={process.container ?? undefined}>{process.container}</span>;
  return <span title={`${pod.namespace}/${pod.name} · ${pod.container}`}>{pod.name}</span>;
}

function What({ process, showNode }: { process: ProcessInfo; showNode: boolean }) {
  const title = process.title || process.command;
  return (
    <span role="cell" class="c-what" title={process.command || title}>
      {process.kind !== 'python' && <span class={`chip ${process.kind}`}>{process.kind}</span>}
      <span class="title">{process.kind === 'ray' ? title.replace(/^ray::/, '') : shortCommand(title)}</span>
      {!process.can_attach && <span class="chip down" title={[process.why, process.remedy].filter(Boolean).join('\n')}>{t('noAccess')}</span>}
      {process.recording && <a class="chip busy" href={to('recording', process.recording)}>{t('isRecorded')}</a>}
      {showNode && <span class="on-node">{process.node_name}</span>}
    </span>
  );
}

export function ProcessRow({ index, process, showNode, selected, onSelect, onRecord }: ProcessProps) {
  const { pid, node } = process;
  const waits = process.wait ?? '';
  return (
    <div class={`row process ${selected ? 'selected' : ''}`} role="row" aria-rowindex={index + 2} data-pid={pid}>
      <span role="cell" class="c-check">
        <input
          type="checkbox"
          checked={selected}
          aria-label={t('selectRow', { pid })}
          onClick={(event) => onSelect(event.shiftKey)}
        />
      </span>
      <span role="cell" class="c-pid">{pid}</span>
      <What process={process} showNode={showNode} />
      <span role="cell" class="c-cpu"><Bar share={process.cpu_percent / 100} text={`${process.cpu_percent.toFixed(process.cpu_percent < 10 ? 1 : 0)} %`} /></span>
      <span role="cell" class="c-memory">{bytes(process.rss)}</span>
      <span role="cell" class="c-threads">{process.threads}<span class="unit"> {t('threads')}</span></span>
      <span role="cell" class="c-wait" title={waits}>{process.state === 'running' ? <em>{t('runs')}</em> : waits}</span>
      <span role="cell" class="c-python"><span class="unit">Python </span>{process.python}</span>
      <span role="cell" class="c-user">{process.user}</span>
      <span role="cell" class="c-where"><Where process={process} /></span>
      <span role="cell" class="c-actions">
        <a class="action" href={to('stack', node, pid)} aria-label={t('stackTraceOf', { pid })}>{t('stackTrace')}</a>
        <button type="button" class="action" aria-label={t('flameGraphOf', { pid })} onClick={() => onRecord(process)}>{t('flameGraph')}</button>
        <a class="action" href={to('top', node, pid)} aria-label={t('liveTopOf', { pid })}>{t('liveTop')}</a>
      </span>
    </div>
  );
}
