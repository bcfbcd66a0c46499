/* A call tree, added up from a profile, or from two for a comparison. Flat arrays: node 0 is "all", and the children
 * of a node stand behind it in one run, heaviest first. */
import { eachStack, type Choice, type Frame, type Owner, type Profile, type Stack } from './profile.ts';

export type Split = keyof Owner;
export interface TreeOptions {
  split: Split[]; /* outermost first */
  inverted: boolean; /* the function that runs at the root, its callers above it */
  byLine: boolean; /* else the lines of one function are one box */
  choice: Choice;
}
export const plainTree: TreeOptions = { split: [], inverted: false, byLine: false, choice: null };

/* What a box stands for: a frame, or whose stacks these are. */
export interface Label {
  kind: 'root' | Split | 'python' | 'native';
  name: string;
  frame: Frame | null;
}

export interface Tree {
  labels: Label[];
  label: Int32Array; /* of each node */
  parent: Int32Array;
  depth: Int32Array;
  total: Float64Array;
  self: Float64Array;
  before: Float64Array | null; /* a comparison: the same in the earlier profile, scaled to this one's sum */
  firstChild: Int32Array; /* -1: none */
  childCount: Int32Array;
  height: number;
}

interface Growing {
  label: number;
  depth: number;
  parent: Growing | null;
  total: number;
  self: number;
  before: number;
  children: Map<number, Growing>;
}

export const functionKey = (f: Frame): string => `${f.name}\0${f.file}\0${f.first}\0${f.native}`;

class Labels {
  readonly list: Label[] = [{ kind: 'root', name: '', frame: null }];
  private readonly known = new Map<string, number>();

  private of(key: string, label: Label): number {
    let index = this.known.get(key);
    if (index === undefined) {
      index = this.list.push(label) - 1;
      this.known.set(key, index);
    }
    return index;
  }

  frame(frame: Frame, byLine: boolean): number {
    const key = `f\0${functionKey(frame)}\0${byLine ? frame.line : ''}`;
    return this.of(key, { kind: frame.native ? 'native' : 'python', name: frame.name, frame });
  }

  /* Threads of different processes may be called the same. */
  owner(kind: Split, { node, process, thread }: Owner): number {
    const key = kind === 'node' ? node : kind === 'process' ? `${node}\0${process}` : `${node}\0${process}\0${thread}`;
    return this.of(`${kind}\0${key}`, { kind, name: { node, process, thread }[kind], frame: null });
  }
}

const fresh = (label: number, parent: Growing | null): Growing => ({
  label, parent, depth: parent ? parent.depth + 1 : 0, total: 0, self: 0, before: 0, children: new Map(),
});

function child(of: Growing, label: number): Growing {
  let found = of.children.get(label);
  if (!found) {
    found = fresh(label, of);
    of.children.set(label, found);
  }
  return found;
}

class Grower {
  readonly labels = new Labels();
  readonly root = fresh(0, null);
  private readonly options: TreeOptions;

  constructor(options: TreeOptions) {
    this.options = options;
  }

  add(profile: Profile, scale: number, earlier: boolean): void {
    const labels = profile.frames.map((frame) => this.labels.frame(frame, this.options.byLine));
    eachStack(profile, this.options.choice, (stack) => {
      this.path(stack, profile.owners[stack.owner]!, labels, stack.weight * scale, earlier);
    });
  }

  private path(stack: Stack, owner: Owner, labels: number[], weight: number, earlier: boolean): void {
    const { split, inverted } = this.options;
    const n = stack.frames.length;
    let at = this.root;
    grow(at, weight, earlier);
    for (const kind of split) grow(at = child(at, this.labels.owner(kind, owner)), weight, earlier);
    for (let i = 0; i < n; i++) {
      grow(at = child(at, labels[stack.frames[inverted ? n - 1 - i : i]!]!), weight, earlier);
    }
    if (!earlier) at.self += weight;
  }
}

function grow(node: Growing, weight: number, earlier: boolean): void {
  if (earlier) node.before += weight;
  else node.total += weight;
}

/* All nodes, children of one node side by side. */
function inOrder(root: Growing): { order: Growing[]; firsts: number[] } {
  const order: Growing[] = [root];
  const firsts: number[] = [];
  const size = (g: Growing): number => Math.max(g.total, g.before);
  for (let i = 0; i < order.length; i++) {
    const kids = [...order[i]!.children.values()].sort((a, b) => size(b) - size(a) || a.label - b.label);
    firsts.push(kids.length ? order.length : -1);
    for (const kid of kids) order.push(kid);
  }
  return { order, firsts };
}

function flatten(labels: Label[], root: Growing, compared: boolean): Tree {
  const { order, firsts } = inOrder(root);
  const index = new Map(order.map((g, i) => [g, i]));
  const ints = (of: (g: Growing) => number): Int32Array => Int32Array.from(order, of);
  const doubles = (of: (g: Growing) => number): Float64Array => Float64Array.from(order, of);
  return {
    labels, label: ints((g) => g.label), parent: ints((g) => (g.parent ? index.get(g.parent)! : -1)),
    depth: ints((g) => g.depth), total: doubles((g) => g.total), self: doubles((g) => g.self),
    before: compared ? doubles((g) => g.before) : null, firstChild: Int32Array.from(firsts),
    childCount: ints((g) => g.children.size), height: order.at(-1)!.depth + 1,
  };
}

export function buildTree(profile: Profile, options: TreeOptions = plainTree): Tree {
  const grower = new Grower(options);
  grower.add(profile, 1, false);
  return flatten(grower.labels.list, grower.root, false);
}

function weightOf(profile: Profile, choice: Choice): number {
  let sum = 0;
  eachStack(profile, choice, (stack) => { sum += stack.weight; });
  return sum;
}

/* Shares are compared, not samples: two recordings are seldom of the same length. */
export function buildDiff(before: Profile, after: Profile, options: TreeOptions = plainTree): Tree {
  const grower = new Grower(options);
  const sumBefore = weightOf(before, options.choice);
  const sumAfter = weightOf(after, options.choice);
  grower.add(after, 1, false);
  grower.add(before, sumBefore > 0 && sumAfter > 0 ? sumAfter / sumBefore : 1, true);
  return flatten(grower.labels.list, grower.root, true);
}

/* How wide a node is drawn: in a comparison as wide as it was or is, whichever is more, so that what went away is seen. */
export function sizeOf(tree: Tree, node: number): number {
  return tree.before ? Math.max(tree.total[node]!, tree.before[node]!) : tree.total[node]!;
}

/* The nodes from the root down to this one. */
export function pathTo(tree: Tree, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = tree.parent[at]!) path.push(at);
  return path.reverse();
}

/* How many boxes match, and how much of the whole lies in them, each moment counted once. */
export function matchedShare(tree: Tree, matches: (label: Label) => boolean): { boxes: number; weight: number } {
  const hit = tree.labels.map(matches);
  const covered = new Uint8Array(tree.label.length);
  let weight = 0;
  let boxes = 0;
  for (let i = 1; i < tree.label.length; i++) {
    const above = covered[tree.parent[i]!] === 1;
    const here = hit[tree.label[i]!] === true;
    if (here) boxes++;
    if (here && !above) weight += tree.total[i]!;
    covered[i] = above || here ? 1 : 0;
  }
  return { boxes, weight };
}
