/* The list of processes as rows of a table: filtered, sorted, in groups that can be folded. Tens of thousands of
 * processes are an ordinary case, so it is one pass for each step and nothing is copied but references. */
import type { NodeInfo, NodeState, ProcessInfo } from '../api.ts';

export type SortKey = 'pid' | 'title' | 'cpu' | 'memory' | 'threads' | 'wait' | 'python' | 'user' | 'container';
export type Grouping = 'node' | 'task' | 'none';

export interface ListOptions {
  filter: string;
  sort: SortKey;
  down: boolean; /* largest first */
  grouping: Grouping;
  folded: ReadonlySet<string>;
}

export interface Group {
  key: string;
  name: string;
  node: NodeInfo | null;
  state: NodeState;
  error: string | null;
  processes: number;
  cpu: number;
  rss: number;
}

export type Row = { group: Group; process: null } | { group: Group | null; process: ProcessInfo };

export const keyOf = (p: { node: string; pid: number }): string => `${p.node}/${p.pid}`;

export const whereOf = (p: ProcessInfo): string => (p.pod ? `${p.pod.namespace}/${p.pod.name}` : p.container ?? '');

const searched = new WeakMap<ProcessInfo, string>();
function textOf(p: ProcessInfo): string {
  let text = searched.get(p);
  if (text === undefined) {
    text = [p.pid, p.title, p.command, p.group, p.kind, p.user, p.python, p.wait, p.node_name, p.container, p.pod?.name,
      p.pod?.namespace, p.pod?.container].join('\n').toLowerCase();
    searched.set(p, text);
  }
  return text;
}

/* All words must occur. */
export function filtered(processes: ProcessInfo[], filter: string): ProcessInfo[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return processes;
  return processes.filter((p) => {
    const text = textOf(p);
    return wanted.every((word) => text.includes(word));
  });
}

const versionNumber = (python: string): number =>
  python.split('.').slice(0, 3).reduce((n, part) => n * 1000 + (Number.parseInt(part, 10) || 0), 0);

const sortValue: Record<SortKey, (p: ProcessInfo) => number | string> = {
  pid: (p) => p.pid,
  title: (p) => p.title.toLowerCase(),
  cpu: (p) => p.cpu_percent,
  memory: (p) => p.rss,
  threads: (p) => p.threads,
  wait: (p) => p.wait ?? '',
  python: (p) => versionNumber(p.python),
  user: (p) => p.user,
  container: whereOf,
};

export function sorted(processes: ProcessInfo[], key: SortKey, down: boolean): ProcessInfo[] {
  const value = sortValue[key];
  const keyed = processes.map((process) => ({ process, value: value(process) }));
  const sign = down ? -1 : 1;
  keyed.sort((a, b) => {
    if (a.value !== b.value) return a.value < b.value ? -sign : sign;
    return a.process.pid - b.process.pid;
  });
  return keyed.map((k) => k.process);
}

/* The order of before, while somebody is reading: new ones go to the end. */
export function inOrderOf(processes: ProcessInfo[], order: readonly string[]): ProcessInfo[] {
  const rank = new Map(order.map((key, i) => [key, i]));
  return processes.map((process) => ({ process, rank: rank.get(keyOf(process)) ?? order.length }))
    .sort((a, b) => a.rank - b.rank).map((r) => r.process);
}

function emptyGroup(key: string, name: string, node: NodeInfo | null): Group {
  return { key, name, node, state: node?.state ?? 'up', error: node?.error ?? null, processes: 0, cpu: 0, rss: 0 };
}

/* Every node has its group, also one that gave no processes: that it is down is what has to be seen. */
function groupsFor(nodes: NodeInfo[], options: ListOptions): Map<string, Group> {
  const groups = new Map<string, Group>();
  if (options.grouping !== 'node') return groups;
  for (const node of nodes) {
    if (!options.filter || node.state !== 'up') groups.set(node.id, emptyGroup(node.id, node.name, node));
  }
  return groups;
}

function fill(groups: Map<string, Group>, processes: ProcessInfo[], grouping: Grouping, nodes: NodeInfo[]): Map<string, ProcessInfo[]> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const members = new Map<string, ProcessInfo[]>();
  for (const p of processes) {
    const key = grouping === 'node' ? p.node : p.kind === 'python' ? '' : `${p.kind}/${p.group}`;
    let group = groups.get(key);
    if (!group) {
      group = grouping === 'node' ? emptyGroup(key, p.node_name, byId.get(key) ?? null) : emptyGroup(key, p.kind === 'python' ? '' : p.group, null);
      groups.set(key, group);
    }
    group.processes++;
    group.cpu += p.cpu_percent;
    group.rss += p.rss;
    const list = members.get(key);
    if (list) list.push(p);
    else members.set(key, [p]);
  }
  return members;
}

const stateRank = { down: 0, slow: 1, up: 2 };

/* Nodes: this one first, then trouble, then by name. Tasks: by how many run them; what is no task last. */
function groupOrder(a: Group, b: Group, grouping: Grouping): number {
  if (grouping === 'task') return Number(a.key === '') - Number(b.key === '') || b.processes - a.processes || a.name.localeCompare(b.name);
  return Number(b.node?.self ?? false) - Number(a.node?.self ?? false) || stateRank[a.state] - stateRank[b.state] ||
    a.name.localeCompare(b.name);
}

export function arrange(processes: ProcessInfo[], nodes: NodeInfo[], options: ListOptions): Row[] {
  if (options.grouping === 'none') return processes.map((process) => ({ group: null, process }));
  const groups = groupsFor(nodes, options);
  const members = fill(groups, processes, options.grouping, nodes);
  const rows: Row[] = [];
  for (const group of [...groups.values()].sort((a, b) => groupOrder(a, b, options.grouping))) {
    rows.push({ group, process: null });
    if (options.folded.has(group.key)) continue;
    for (const process of members.get(group.key) ?? []) rows.push({ group, process });
  }
  return rows;
}
