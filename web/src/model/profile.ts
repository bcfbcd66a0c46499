/* A finished recording as the page works with it: whole stacks, each with whose it is, so that the same data can be
 * turned upside down, split by node, process and thread, searched and compared without asking the server again.
 * It is made from the answer of `…/tree?nodes=1&processes=1&threads=1`, which is not believed: see docs/api.md. */

export interface Frame {
  name: string;
  file: string;
  line: number; /* 0: unknown */
  first: number; /* where the function begins; 0: unknown */
  native: boolean;
}

/* One thread of one process of one node, as texts for a person. */
export interface Owner {
  node: string;
  process: string;
  thread: string;
}

export interface Stack {
  frames: number[]; /* from the outermost to the one that runs */
  owner: number;
  weight: number; /* in the profile's unit */
}

export interface Profile {
  frames: Frame[];
  owners: Owner[];
  stacks: Stack[];
  total: number;
  unit: 'samples' | 'nanoseconds';
}

/* What `…/tree` answers: columns, and indices into them. */
export interface TreeAnswer {
  unit: 'samples' | 'nanoseconds';
  total: number;
  seconds: number;
  names: string[];
  files: string[];
  frames: { name: number[]; file: number[]; line: number[]; first: number[]; kind: string[] };
  nodes: { parent: number[]; frame: number[]; self: number[]; total: number[] };
}

const OWNERS = new Set(['node', 'process', 'thread']);
const MAX_DEPTH = 4096;

function framesOf(answer: TreeAnswer): Frame[] {
  const { frames, names, files } = answer;
  return frames.name.map((name, i) => ({
    name: names[name] ?? '?', file: files[frames.file[i] ?? -1] ?? '', line: frames.line[i] ?? 0,
    first: frames.first[i] ?? 0, native: frames.kind[i] === 'native',
  }));
}

/* Owners are few and come again with every stack. */
class Owners {
  readonly list: Owner[] = [];
  private readonly known = new Map<string, number>();

  of(owner: Owner): number {
    const key = `${owner.node}\0${owner.process}\0${owner.thread}`;
    let index = this.known.get(key);
    if (index === undefined) {
      index = this.list.push(owner) - 1;
      this.known.set(key, index);
    }
    return index;
  }
}

/* Up from a node to the root; a parent always stands before its children, so this ends. */
function pathOf(answer: TreeAnswer, from: number): { frames: number[]; owner: Owner } {
  const owner: Owner = { node: '', process: '', thread: '' };
  const frames: number[] = [];
  let at = from;
  while (at >= 0 && frames.length < MAX_DEPTH) {
    const frame = answer.nodes.frame[at] ?? -1;
    const kind = answer.frames.kind[frame];
    if (kind !== undefined && OWNERS.has(kind)) {
      owner[kind as keyof Owner] = answer.names[answer.frames.name[frame]!] ?? '';
    } else if (kind !== undefined) frames.push(frame);
    const parent = answer.nodes.parent[at] ?? -1;
    if (parent >= at) break;
    at = parent;
  }
  return { frames: frames.reverse(), owner };
}

export function readTree(answer: TreeAnswer): Profile {
  const owners = new Owners();
  const stacks: Stack[] = [];
  answer.nodes.self.forEach((weight, node) => {
    if (!(weight > 0)) return;
    const { frames, owner } = pathOf(answer, node);
    stacks.push({ frames, owner: owners.of(owner), weight });
  });
  const total = stacks.reduce((sum, stack) => sum + stack.weight, 0);
  return { frames: framesOf(answer), owners: owners.list, stacks, total, unit: answer.unit };
}

/* Whose stacks: everybody's, or those of one node, process or thread. */
export type Choice = Partial<Owner> | null;

const belongs = (owner: Owner, part: Choice): boolean =>
  !part || ((part.node ?? owner.node) === owner.node && (part.process ?? owner.process) === owner.process &&
    (part.thread ?? owner.thread) === owner.thread);

export function eachStack(profile: Profile, choice: Choice, visit: (stack: Stack) => void): void {
  const wanted = profile.owners.map((owner) => belongs(owner, choice));
  for (const stack of profile.stacks) if (wanted[stack.owner] && stack.frames.length) visit(stack);
}
