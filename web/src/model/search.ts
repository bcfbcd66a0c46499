/* What was typed into a search field: a regular expression if it is one that says more than its letters. */
import type { Label } from './tree.ts';

export interface Matcher {
  matches: ((label: Label) => boolean) | null; /* null: nothing to search for */
  bad: boolean;
}

export function matcher(text: string): Matcher {
  const typed = text.trim();
  if (!typed) return { matches: null, bad: false };
  let test: (candidate: string) => boolean;
  if (/[\\^$.*+?()[\]{}|]/.test(typed)) {
    try {
      const pattern = new RegExp(typed, 'i');
      test = (candidate) => pattern.test(candidate);
    } catch {
      return { matches: null, bad: true };
    }
  } else {
    const lower = typed.toLowerCase();
    test = (candidate) => candidate.toLowerCase().includes(lower);
  }
  return { matches: (label) => test(label.name) || (label.frame !== null && test(label.frame.file)), bad: false };
}
