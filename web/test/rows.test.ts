import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { DumpThread, NodeInfo, ProcessInfo } from '../src/api.ts';
import { arrange, filtered, inOrderOf, keyOf, sorted, type ListOptions } from '../src/model/rows.ts';
import { offsets, rowAt } from '../src/model/offsets.ts';
import { asText, foldThreads, waitSummary } from '../src/model/stacks.ts';
import { shortCommand } from '../src/text.ts';

const process = (pid: number, change: Partial<ProcessInfo> = {}): ProcessInfo => ({
  node: 'n1', node_name: 'alpha', pid, parent: 1, started: '', python: '3.11.7', command: `python job${pid}.py`, title: `python job${pid}.py`,
  group: '', kind: 'python', user: 'ray', threads: 1, state: 'sleeping', wait: null, cpu_percent: 0, rss: 0, container: null, pod: null,
  can_attach: true, why: null, remedy: null, recording: null, ...change,
});
const node = (id: string, name: string, change: Partial<NodeInfo> = {}): NodeInfo => ({
  id, name, address: '', self: false, state: 'up', error: null, version: null, cpus: 1, load: 0, memory_total: 0, memory_available: 0,
  processes: 0, sources: [], ...change,
});
const options: ListOptions = { filter: '', sort: 'cpu', down: true, grouping: 'node', folded: new Set() };
const pids = (list: ProcessInfo[]): number[] => list.map((p) => p.pid);

test('every word of the filter must occur somewhere', () => {
  const list = [process(1, { user: 'ann', wait: 'futex' }), process(2, { user: 'ann' }), process(3, { pod: { name: 'ann-0', namespace: 'x', uid: '', container: 'c' } })];
  assert.deepEqual(pids(filtered(list, 'ANN')), [1, 2, 3]);
  assert.deepEqual(pids(filtered(list, 'ann futex')), [1]);
  assert.deepEqual(pids(filtered(list, 'job2')), [2]);
  assert.deepEqual(pids(filtered(list, 'nobody')), []);
});

test('versions sort as numbers', () => {
  const list = [process(1, { python: '3.9.1' }), process(2, { python: '3.13.0' }), process(3, { python: '3.10.12' })];
  assert.deepEqual(pids(sorted(list, 'python', false)), [1, 3, 2]);
});

test('while somebody reads, the order stays and new ones go to the end', () => {
  const list = [process(1, { cpu_percent: 5 }), process(2, { cpu_percent: 50 }), process(3)];
  const order = sorted(list.slice(0, 2), 'cpu', true).map(keyOf);
  list[0] = process(1, { cpu_percent: 99 });
  assert.deepEqual(pids(inOrderOf(list, order)), [2, 1, 3]);
});

test('a node that is down has its row, before those that are well', () => {
  const nodes = [node('n1', 'alpha', { self: true }), node('n3', 'carol'), node('n2', 'bob', { state: 'down', error: 'no route' })];
  const rows = arrange([process(1), process(2, { node: 'n3', node_name: 'carol' })], nodes, options);
  assert.deepEqual(rows.map((r) => (r.process ? r.process.pid : r.group!.name)), ['alpha', 1, 'bob', 'carol', 2]);
  assert.equal(rows[2]!.group!.error, 'no route');
});

test('a folded group keeps its row and its sums', () => {
  const rows = arrange([process(1, { cpu_percent: 10, rss: 5 }), process(2, { cpu_percent: 20, rss: 6 })], [node('n1', 'alpha')], { ...options, folded: new Set(['n1']) });
  assert.equal(rows.length, 1);
  assert.deepEqual([rows[0]!.group!.processes, rows[0]!.group!.cpu, rows[0]!.group!.rss], [2, 30, 11]);
});

test('tasks group over nodes, and what is no task comes last', () => {
  const ray = (pid: number, group: string, on: string): ProcessInfo => process(pid, { kind: 'ray', group, node: on, title: `ray::${group}` });
  const rows = arrange([process(1), ray(2, 'load', 'n1'), ray(3, 'train', 'n1'), ray(4, 'train', 'n2')], [], { ...options, grouping: 'task' });
  assert.deepEqual(rows.map((r) => (r.process ? r.process.pid : r.group!.name)), ['train', 3, 4, 'load', 2, '', 1]);
});

test('fifty thousand processes are arranged in a moment', () => {
  const list = Array.from({ length: 50000 }, (_, i) => process(i + 1, { node: `n${i % 1000}`, node_name: `node-${i % 1000}`, cpu_percent: (i * 7919) % 100 }));
  const nodes = Array.from({ length: 1000 }, (_, i) => node(`n${i}`, `node-${i}`));
  const rows = arrange(sorted(filtered(list, 'job'), 'cpu', true), nodes, options);
  assert.equal(rows.length, 51000);
});

const thread = (id: number, where: string, wait: string | null): DumpThread => ({
  pid: 1, thread_id: id, thread_name: `T${id}`, os_thread_id: 100 + id, active: wait === null, owns_gil: false, in_gc: false, torn: false, wait,
  frames: where.split('<').map((name, i) => ({ name, qualname: name, filename: 'a.py', short_filename: 'a.py', line: i + 1, module: null, locals: null })),
});

test('identical stacks fold; those that wait come first, the most first', () => {
  const threads = [thread(1, 'work<main', null), thread(2, 'get<run', 'futex'), thread(3, 'recv<run', 'socket'), thread(4, 'recv<run', 'socket')];
  const groups = foldThreads(threads);
  assert.deepEqual(groups.map((g) => [g.wait, g.threads.length]), [['socket', 2], ['futex', 1], ['', 1]]);
  assert.deepEqual(waitSummary(threads), [{ wait: 'socket', threads: 2 }, { wait: 'futex', threads: 1 }]);
  assert.match(asText(groups), /^2 × socket: 103 "T3", 104 "T4"\n {4}recv \(a.py:1\)\n/);
});

test('the same place for different reasons is two groups', () => {
  assert.equal(foldThreads([thread(1, 'f', 'futex'), thread(2, 'f', 'poll'), thread(3, 'f', null)]).length, 3);
});

test('a command line in little room', () => {
  assert.equal(shortCommand('/opt/venv/bin/python3.11 -m train --epochs 3'), 'python3.11 -m train --epochs 3');
  assert.equal(shortCommand('ray::train_step'), 'ray::train_step');
  assert.equal(shortCommand('/usr/bin/gunicorn app:app'), '/usr/bin/gunicorn app:app');
});

test('rows of different heights: where they are and which is where', () => {
  const tops = offsets(4, (i) => [10, 30, 10, 30][i]!);
  assert.deepEqual([...tops], [0, 10, 40, 50, 80]);
  assert.deepEqual([-5, 0, 9, 10, 39, 40, 79, 80, 999].map((at) => rowAt(tops, at)), [0, 0, 0, 1, 1, 2, 3, 3, 3]);
  assert.equal(rowAt(offsets(0, () => 1), 5), 0);
});
