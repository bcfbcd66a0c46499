/* Numbers and times for a person. */
import { locale } from './i18n.ts';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(n: number): string {
  let unit = 0;
  while (n >= 1024 && unit < UNITS.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n >= 100 || unit === 0 ? n.toFixed(0) : n.toFixed(1)} ${UNITS[unit]}`;
}

export function percent(share: number): string {
  const p = share * 100;
  if (p > 0 && p < 0.1) return '<0.1 %';
  return `${p >= 99.95 ? p.toFixed(0) : p.toFixed(1)} %`;
}

/* With its sign: +3.2 %, −1.0 %. */
export function change(share: number): string {
  const p = Math.abs(share * 100);
  if (p < 0.05) return '±0.0 %';
  return `${share > 0 ? '+' : '−'}${p.toFixed(1)} %`;
}

export const whole = (n: number): string => Math.round(n).toLocaleString(locale());

export function when(iso: string | null): string {
  if (!iso) return '';
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return '';
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(locale(), today ? { timeStyle: 'medium' } : { dateStyle: 'medium', timeStyle: 'short' });
}

/* What a process is called where there is little room: its title if it has one, else its command line without the
 * path and the flags of the interpreter. */
export function shortCommand(command: string): string {
  const words = command.trim().split(/\s+/);
  if (!/(^|\/)python[\d.]*\w?$/.test(words[0] ?? '') || words.length === 1) return command.trim();
  const base = words[0]!.split('/').at(-1)!;
  return [base, ...words.slice(1)].join(' ');
}
