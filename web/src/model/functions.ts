/* A profile as a table of functions, and one function line by line. */
import { eachStack, type Choice, type Frame, type Profile } from './profile.ts';
import { functionKey } from './tree.ts';

export interface FunctionRow {
  key: string;
  frame: Frame;
  self: number;
  total: number;
}

interface Sums<K> {
  key: K;
  frame: Frame;
  self: number;
  total: number;
}

/* Adds up under the key of each frame. A function that calls itself counts once per moment in `total`. */
function sums<K>(profile: Profile, choice: Choice, keys: (K | null)[]): Sums<K>[] {
  const rows = new Map<K, Sums<K>>();
  eachStack(profile, choice, (stack) => {
    const seen = new Set<K>();
    stack.frames.forEach((index, i) => {
      const key = keys[index] ?? null;
      if (key === null) return;
      let row = rows.get(key);
      if (!row) rows.set(key, row = { key, frame: profile.frames[index]!, self: 0, total: 0 });
      if (!seen.has(key)) row.total += stack.weight;
      seen.add(key);
      if (i === stack.frames.length - 1) row.self += stack.weight;
    });
  });
  return [...rows.values()];
}

export function functionTable(profile: Profile, choice: Choice = null): FunctionRow[] {
  return sums(profile, choice, profile.frames.map(functionKey)).sort((a, b) => b.self - a.self || b.total - a.total);
}

export interface LineRow {
  line: number;
  self: number;
  total: number;
}

export function linesOf(profile: Profile, key: string, choice: Choice = null): LineRow[] {
  const keys = profile.frames.map((frame) => (functionKey(frame) === key ? frame.line : null));
  return sums(profile, choice, keys).map(({ key: line, self, total }) => ({ line, self, total }))
    .sort((a, b) => a.line - b.line);
}

export interface ChangeRow {
  key: string;
  frame: Frame;
  before: number; /* shares of the whole, 0 to 1 */
  after: number;
}

/* What takes more of the time than before, and what less: by own time. */
export function changes(before: Profile, after: Profile): ChangeRow[] {
  const rows = new Map<string, ChangeRow>();
  for (const [profile, side] of [[before, 'before'], [after, 'after']] as const) {
    const table = functionTable(profile);
    const sum = table.reduce((n, row) => n + row.self, 0) || 1;
    for (const { key, frame, self } of table) {
      let row = rows.get(key);
      if (!row) rows.set(key, row = { key, frame, before: 0, after: 0 });
      row[side] += self / sum;
    }
  }
  return [...rows.values()].sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before));
}
