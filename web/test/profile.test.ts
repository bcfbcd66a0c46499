import assert from 'node:assert/strict';
import { test } from 'node:test';

import { changes, functionTable, linesOf } from '../src/model/functions.ts';
import { readTree, type Profile, type TreeAnswer } from '../src/model/profile.ts';
import { matcher } from '../src/model/search.ts';
import { buildDiff, buildTree, functionKey, matchedShare, plainTree, type Tree } from '../src/model/tree.ts';

/* Two processes on two nodes: main calls work (lines 11 and 12, which calls itself once), and wait. */
const answer: TreeAnswer = {
  unit: 'samples', total: 100, seconds: 1,
  names: ['alpha', 'beta', '10 train.py', '20 train.py', 'MainThread', 'main', 'work', 'wait'],
  files: ['', 'train.py', 'threading.py'],
  frames: {
    name: [0, 1, 2, 3, 4, 5, 6, 6, 7], file: [0, 0, 0, 0, 0, 1, 1, 1, 2], line: [0, 0, 0, 0, 0, 5, 11, 12, 300],
    first: [0, 0, 0, 0, 0, 1, 10, 10, 290],
    kind: ['node', 'node', 'process', 'process', 'thread', 'python', 'python', 'python', 'python'],
  },
  nodes: {
    /*       alpha p10 main() work11 work12  beta p20 main() work11 wait */
    parent: [-1, 0, 1, 2, 3, 4, -1, 6, 7, 8, 9, 9],
    frame: [0, 2, 4, 5, 6, 7, 1, 3, 4, 5, 6, 8],
    self: [0, 0, 0, 0, 30, 20, 0, 0, 0, 0, 40, 10],
    total: [50, 50, 50, 50, 50, 20, 50, 50, 50, 50, 40, 10],
  },
};

const children = (tree: Tree, node: number): { name: string; total: number; node: number }[] => {
  const first = tree.firstChild[node]!;
  return Array.from({ length: tree.childCount[node]! }, (_, i) => first + i)
    .map((n) => ({ node: n, name: tree.labels[tree.label[n]!]!.name, total: tree.total[n]! }));
};

test('a tree becomes stacks with their owners', () => {
  const profile = readTree(answer);
  assert.equal(profile.total, 100);
  assert.deepEqual(profile.owners, [
    { node: 'alpha', process: '10 train.py', thread: 'MainThread' }, { node: 'beta', process: '20 train.py', thread: 'MainThread' },
  ]);
  assert.deepEqual(profile.stacks.map((s) => s.frames.map((f) => profile.frames[f]!.name).join('>')),
    ['main>work', 'main>work>work', 'main>work', 'main>wait']);
});

test('a tree that contradicts itself ends, and loses only what is wrong', () => {
  const bad = structuredClone(answer);
  bad.nodes.parent[5] = 5; /* its own parent */
  bad.nodes.frame[10] = 999; /* a frame that is not there */
  bad.frames.name[5] = 77;
  const profile = readTree(bad);
  assert.equal(profile.total, 100);
  assert.ok(profile.frames.some((f) => f.name === '?'));
});

test('nodes and processes merge into one tree', () => {
  const tree = buildTree(readTree(answer));
  assert.deepEqual(children(tree, 0).map((c) => [c.name, c.total]), [['main', 100]]);
  assert.deepEqual(children(tree, children(tree, 0)[0]!.node).map((c) => [c.name, c.total]), [['work', 90], ['wait', 10]]);
});

test('it splits again by node, process and thread', () => {
  const tree = buildTree(readTree(answer), { ...plainTree, split: ['node', 'thread'] });
  const [alpha, beta] = children(tree, 0);
  assert.deepEqual([alpha!.name, alpha!.total, beta!.name, beta!.total], ['alpha', 50, 'beta', 50]);
  assert.deepEqual(children(tree, alpha!.node).map((c) => c.name), ['MainThread']);
});

test('inverted: what runs is at the root, its callers below', () => {
  const tree = buildTree(readTree(answer), { ...plainTree, inverted: true });
  assert.deepEqual(children(tree, 0).map((c) => [c.name, c.total]), [['work', 90], ['wait', 10]]);
  assert.deepEqual(children(tree, children(tree, 0)[0]!.node).map((c) => [c.name, c.total]), [['main', 70], ['work', 20]]);
});

test('lines of a function are one box, or a box each', () => {
  const profile = readTree(answer);
  const byLine = buildTree(profile, { ...plainTree, byLine: true, inverted: true });
  assert.deepEqual(children(byLine, 0).map((c) => [c.name, byLine.labels[byLine.label[c.node]!]!.frame!.line, c.total]),
    [['work', 11, 70], ['work', 12, 20], ['wait', 300, 10]]);
});

test('one process alone', () => {
  const tree = buildTree(readTree(answer), { ...plainTree, choice: { node: 'beta', process: '20 train.py' } });
  assert.equal(tree.total[0], 50);
});

test('the table counts a function that calls itself once', () => {
  const profile = readTree(answer);
  const rows = functionTable(profile);
  assert.deepEqual(rows.map((r) => [r.frame.name, r.self, r.total]), [['work', 90, 90], ['wait', 10, 10], ['main', 0, 100]]);
  assert.deepEqual(linesOf(profile, functionKey(rows[0]!.frame)), [{ line: 11, self: 70, total: 90 }, { line: 12, self: 20, total: 20 }]);
});

test('a search counts each moment once', () => {
  const tree = buildTree(readTree(answer));
  const found = (text: string): [number, number] => {
    const { boxes, weight } = matchedShare(tree, matcher(text).matches!);
    return [boxes, weight];
  };
  assert.deepEqual(found('WORK'), [2, 90]);
  assert.deepEqual(found('train.py'), [3, 100]);
  assert.deepEqual(found('^wa.t$'), [1, 10]);
  assert.deepEqual(matcher('a(b'), { matches: null, bad: true });
  assert.deepEqual(matcher('  '), { matches: null, bad: false });
});

test('a comparison is of shares', () => {
  const after = readTree(answer);
  const half = structuredClone(answer);
  half.nodes.self = [0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 5];
  const before: Profile = readTree(half);
  const tree = buildDiff(before, after);
  const main = children(tree, 0)[0]!;
  assert.equal(tree.before![0], 100); /* ten samples, scaled */
  const [work, wait] = children(tree, main.node);
  assert.deepEqual([tree.before![work!.node], tree.total[work!.node]], [50, 90]);
  assert.deepEqual([tree.before![wait!.node], tree.total[wait!.node]], [50, 10]);
  assert.deepEqual(changes(before, after).slice(0, 2).map((r) => [r.frame.name, r.before, r.after]), [['work', 0.5, 0.9], ['wait', 0.5, 0.1]]);
});

test('two profiles without a sample compare as nothing', () => {
  const empty = structuredClone(answer);
  empty.nodes.self.fill(0);
  const tree = buildDiff(readTree(empty), readTree(empty));
  assert.equal(tree.label.length, 1);
  assert.equal(tree.height, 1);
});
