import assert from 'node:assert/strict';
import { test } from 'node:test';

import { packageOf, isStandard } from '../src/flame/colors.ts';
import { boxAt, layOut, step, visit, WHOLE, windowOf, type Layout } from '../src/flame/layout.ts';
import { buildTree } from '../src/model/tree.ts';
import type { Profile } from '../src/model/profile.ts';

function profileOf(folded: Record<string, number>): Profile {
  const names = [...new Set(Object.keys(folded).flatMap((stack) => stack.split(';')))];
  const index = new Map(names.map((name, i) => [name, i]));
  const stacks = Object.entries(folded).map(([stack, weight]) => ({ frames: stack.split(';').map((n) => index.get(n)!), owner: 0, weight }));
  return {
    frames: names.map((name) => ({ name, file: 'a.py', line: 1, first: 1, native: false })), owners: [{ node: '', process: '', thread: '' }],
    stacks, total: stacks.reduce((n, s) => n + s.weight, 0), unit: 'samples',
  };
}

const layout: Layout = layOut(buildTree(profileOf({ 'a;b;c': 60, 'a;d': 20, 'e': 20 })));
const name = (node: number): string => layout.tree.labels[layout.tree.label[node]!]!.name;
const seen = (window = WHOLE, rows = { first: 0, last: 99 }): string[] => {
  const boxes: string[] = [];
  visit(layout, window, 1000, rows, (box) => boxes.push(`${name(box.node)} ${Math.round(box.x)}+${Math.round(box.width)}`));
  return boxes;
};

test('boxes lie under their callers, the heaviest first', () => {
  assert.deepEqual(seen().sort(), [' 0+1000', 'a 0+800', 'b 0+600', 'c 0+600', 'd 600+200', 'e 800+200']);
});

test('zoomed in, the way there fills the width and the rest is gone', () => {
  const d = Array.from(layout.tree.label.keys()).find((n) => name(n) === 'd')!;
  assert.deepEqual(seen(windowOf(layout, d)).sort(), [' 0+1000', 'a 0+1000', 'd 0+1000']);
});

test('rows out of sight are not drawn', () => {
  assert.deepEqual(seen(WHOLE, { first: 2, last: 2 }).sort(), ['b 0+600', 'd 600+200']);
});

test('the box under the mouse', () => {
  assert.equal(name(boxAt(layout, WHOLE, 1000, 700, 2)), 'd');
  assert.equal(boxAt(layout, WHOLE, 1000, 900, 2), -1);
  assert.equal(boxAt(layout, WHOLE, 1000, 900, 0), 0);
});

test('arrow keys lead to the caller, the callee and beside', () => {
  const walk = (...keys: string[]): string => name(keys.reduce((node, key) => step(layout, node, 'Arrow' + key), 0));
  assert.equal(walk('Down'), 'a');
  assert.equal(walk('Down', 'Right'), 'e');
  assert.equal(walk('Down', 'Down', 'Right'), 'd');
  assert.equal(walk('Down', 'Down', 'Right', 'Right'), 'd');
  assert.equal(walk('Down', 'Down', 'Up', 'Up', 'Up'), '');
});

test('a hundred thousand boxes are walked through in a moment', () => {
  const folded: Record<string, number> = {};
  for (let i = 0; i < 100000; i++) folded[`r;f${i % 300};g${i}`] = 1;
  const big = layOut(buildTree(profileOf(folded)));
  let boxes = 0;
  visit(big, WHOLE, 1400, { first: 0, last: 50 }, () => boxes++);
  assert.ok(boxes > 200 && boxes < 5000, String(boxes));
});

test('a package has one colour wherever it is installed', () => {
  assert.equal(packageOf('/usr/lib/python3.11/site-packages/torch/nn/linear.py'), 'torch');
  assert.equal(packageOf('torch/nn/linear.py'), 'torch');
  assert.equal(packageOf('train.py'), 'train.py');
  assert.ok(isStandard('threading.py') && isStandard('<frozen importlib._bootstrap>') && !isStandard('train.py'));
  assert.ok(isStandard('/usr/lib/python3.11/queue.py') && !isStandard('/usr/lib/python3.11/site-packages/torch/x.py'));
});
