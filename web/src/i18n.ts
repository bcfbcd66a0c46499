/* t('cluster') in the language chosen; t('secondsLeft', { n: 3 }) fills the gaps. */
import type { Language } from './settings.ts';
import { words, type Word } from './words.ts';

let language: Language = 'en';

export const setLanguage = (to: Language): void => { language = to; };
export const getLanguage = (): Language => language;

export function t(word: Word, gaps: Record<string, string | number> = {}): string {
  const text: string = words[word][language === 'zh' ? 1 : 0];
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in gaps ? String(gaps[name]) : whole));
}

/* "1 process", "12 processes": the words come in pairs that end in One and Many. */
export function count(stem: 'processes' | 'nodes' | 'threads' | 'selected', n: number): string {
  return n === 1 ? t(`${stem}One`) : t(`${stem}Many`, { n: n.toLocaleString(locale()) });
}

export const locale = (): string => (language === 'zh' ? 'zh-CN' : 'en');
