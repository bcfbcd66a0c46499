/* Hooks that several views share. */
import type { RefObject } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Asked<T> {
  value: T | null;
  error: Error | null;
  busy: boolean;
  again: () => void;
}

const aborted = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';
export const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));

/* Asks once, and again when `key` changes or again() is called. The value of before stays until the new one is there. */
export function useAsked<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Asked<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: Error | null; busy: boolean }>(
    { key, value: null, error: null, busy: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    setState((s) => ({ key, value: s.key === key ? s.value : null, error: null, busy: true }));
    ask(control.signal).then(
      (value) => { if (!control.signal.aborted) setState({ key, value, error: null, busy: false }); },
      (error: unknown) => {
        if (!control.signal.aborted && !aborted(error)) setState((s) => ({ ...s, error: asError(error), busy: false }));
      });
    return () => control.abort();
  }, [key, turn]);
  return { ...state, again: useCallback(() => setTurn((n) => n + 1), []) };
}

/* Asks again and again, resting at least `rest` milliseconds and ten times as long as the answer took, and not at all
 * while nobody sees the page. What was there stays when an answer fails. */
export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>, rest: number): { value: T | null; error: Error | null } {
  const [state, setState] = useState<{ value: T | null; error: Error | null }>({ value: null, error: null });
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const turn = async (): Promise<void> => {
      const begun = performance.now();
      try {
        if (!document.hidden) {
          const value = await ask(control.signal);
          if (!control.signal.aborted) setState({ value, error: null });
        }
      } catch (error) {
        if (!control.signal.aborted) setState((s) => ({ value: s.value, error: asError(error) }));
      }
      const took = performance.now() - begun;
      if (!control.signal.aborted) timer = window.setTimeout(turn, Math.max(rest, Math.min(took * 10, 15000)));
    };
    void turn();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, []);
  return state;
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = (): void => setMatches(list.matches);
    changed();
    list.addEventListener('change', changed);
    return () => list.removeEventListener('change', changed);
  }, [query]);
  return matches;
}

/* A key pressed anywhere but in a field. */
export function useKey(key: string, act: () => void): void {
  const call = useRef(act);
  call.current = act;
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.key !== key || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.matches('input, textarea, select') || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      call.current();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [key]);
}

export function useSize(of: RefObject<HTMLElement | null>): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = of.current;
    if (!element) return undefined;
    const measure = (): void => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  return size;
}
