/* What a person chose for this browser: language and colours. Kept in local storage where there is one. */

export type Language = 'en' | 'zh';
export type Theme = 'auto' | 'light' | 'dark';

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; /* forbidden by the browser: then it is not kept */
  }
}

export function store(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    /* the same */
  }
}

export const keptChoice = (name: string): string | null => stored('scry.' + name);
export const keepChoice = (name: string, value: string): void => store('scry.' + name, value);

export function firstLanguage(): Language {
  const kept = keptChoice('language');
  if (kept === 'en' || kept === 'zh') return kept;
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

export function firstTheme(): Theme {
  const kept = keptChoice('theme');
  return kept === 'light' || kept === 'dark' ? kept : 'auto';
}

export function isDark(theme: Theme): boolean {
  return theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  /* The embedded viewer reads its own setting: 0 system, 1 dark, 2 light. */
  store('speedscope-color-scheme', theme === 'dark' ? 'DARK' : theme === 'light' ? 'LIGHT' : 'SYSTEM');
}
