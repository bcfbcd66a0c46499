/* A look at a process: threads that stand at the same place are one group. What people come for is what is stuck, so
 * groups that wait come first, the largest of them at the top; then what runs. */
import type { DumpFrame, DumpThread } from '../api.ts';

export interface StackGroup {
  key: string;
  frames: DumpFrame[];
  threads: DumpThread[];
  wait: string; /* '' for threads that run */
}

const frameId = (f: DumpFrame): string => `${f.name}\0${f.filename}\0${f.line}`;

function groupKey(thread: DumpThread): string {
  const where = thread.frames.map(frameId).join('\x01');
  return `${thread.active ? 1 : 0}\x02${thread.wait ?? ''}\x02${where}`;
}

export function foldThreads(threads: DumpThread[]): StackGroup[] {
  const groups = new Map<string, StackGroup>();
  for (const thread of threads) {
    const key = groupKey(thread);
    const group = groups.get(key);
    if (group) group.threads.push(thread);
    else groups.set(key, { key, frames: thread.frames, threads: [thread], wait: thread.active ? '' : thread.wait ?? '' });
  }
  for (const { threads: members } of groups.values()) members.sort((a, b) => a.pid - b.pid || (a.os_thread_id ?? 0) - (b.os_thread_id ?? 0));
  const rank = (g: StackGroup): number => (g.threads[0]!.active ? 2 : g.wait ? 0 : 1);
  return [...groups.values()].sort((a, b) => rank(a) - rank(b) || b.threads.length - a.threads.length ||
    a.wait.localeCompare(b.wait));
}

export interface WaitCount {
  wait: string;
  threads: number;
}

/* "12 × futex, 3 × poll": the answer in one line, before any stack. */
export function waitSummary(threads: DumpThread[]): WaitCount[] {
  const counts = new Map<string, number>();
  for (const t of threads) if (!t.active && t.wait) counts.set(t.wait, (counts.get(t.wait) ?? 0) + 1);
  return [...counts].map(([wait, n]) => ({ wait, threads: n })).sort((a, b) => b.threads - a.threads);
}

/* As text for a mail or a ticket. */
export function asText(groups: StackGroup[]): string {
  return groups.map((group) => {
    const names = group.threads.map((t) => `${t.os_thread_id ?? t.thread_id} "${t.thread_name ?? ''}"`).join(', ');
    const state = group.wait || (group.threads[0]!.active ? 'running' : 'idle');
    const frames = group.frames.map((f) => `    ${f.name} (${f.short_filename ?? f.filename}:${f.line})`);
    return [`${group.threads.length} × ${state}: ${names}`, ...frames].join('\n');
  }).join('\n\n') + '\n';
}
