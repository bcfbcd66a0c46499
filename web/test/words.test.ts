import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

import { setLanguage, t } from '../src/i18n.ts';
import { parseRoute, to } from '../src/router.ts';
import { bytes, change, percent } from '../src/text.ts';
import { words } from '../src/words.ts';

const gaps = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map((m) => m[0]).sort();
const sources = (readdirSync(new URL('../src', import.meta.url), { recursive: true }) as string[])
  .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('words.ts'))
  .map((file) => readFileSync(new URL(`../src/${file}`, import.meta.url), 'utf8')).join('\n');

test('both languages have the same gaps, and neither is empty', () => {
  for (const [key, [english, chinese]] of Object.entries(words)) {
    assert.ok(english && chinese, key);
    assert.deepEqual(gaps(chinese), gaps(english), key);
  }
});

test('every text is used, and Chinese is Chinese', () => {
  const same = new Set(['pid', 'cpu', 'python', 'viewerTitle']);
  for (const [key, [, chinese]] of Object.entries(words)) {
    const stem = key.replace(/(One|Many)$/, '');
    assert.ok(new RegExp(`'(${key}|${stem})'`).test(sources), `nobody says '${key}'`);
    if (!same.has(key) && key !== 'language') assert.match(chinese, /[\u4e00-\u9fff]/, key);
  }
});

test('nothing of a target becomes markup: no innerHTML anywhere', () => {
  assert.doesNotMatch(sources, /innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/);
});

test('gaps are filled with text as it is', () => {
  setLanguage('zh');
  assert.equal(t('dialogOne', { pid: '{n} $&' }), '录制进程 {n} $&');
  setLanguage('en');
  assert.equal(t('secondsLeft', {}), '{n} s left');
});

test('addresses survive whatever stands in them', () => {
  const odd = 'a/b ?#%';
  assert.deepEqual(parseRoute(to('stack', odd, 5)).parts, [odd, '5']);
  assert.equal(parseRoute('').view, 'cluster');
  assert.equal(parseRoute('#/stack/%E0%A4%A/5').parts[0], '%E0%A4%A');
  assert.equal(parseRoute('#/recording/x?view=time').options.get('view'), 'time');
});

test('numbers for a person', () => {
  assert.deepEqual([bytes(0), bytes(1023), bytes(1536), bytes(104857600)], ['0 B', '1023 B', '1.5 KiB', '100 MiB']);
  assert.deepEqual([percent(1), percent(0.1234), percent(0.0001), percent(0)], ['100 %', '12.3 %', '<0.1 %', '0.0 %']);
  assert.deepEqual([change(0.032), change(-0.01), change(0)], ['+3.2 %', '−1.0 %', '±0.0 %']);
});
