/* Where the page is: #/view/part/part?option=value. */
import { useEffect, useState } from 'preact/hooks';

export interface Route {
  view: string;
  parts: string[];
  options: URLSearchParams;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [view = '', ...parts] = path.split('/').map(decoded);
  return { view: view || 'cluster', parts, options: new URLSearchParams(query) };
}

export function to(view: string, ...parts: (string | number)[]): string {
  return '#/' + [view, ...parts].map((part) => encodeURIComponent(part)).join('/');
}

export const go = (hash: string): void => { location.hash = hash; };

/* Changes an option without a new entry in the browser's history. */
export function setOption(name: string, value: string | null): void {
  const { options } = parseRoute(location.hash);
  if (value === null || value === '') options.delete(name);
  else options.set(name, value);
  const path = location.hash.split('?', 1)[0];
  const query = options.toString();
  history.replaceState(null, '', path + (query ? '?' + query : ''));
  dispatchEvent(new HashChangeEvent('hashchange'));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const changed = (): void => setRoute(parseRoute(location.hash));
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}
