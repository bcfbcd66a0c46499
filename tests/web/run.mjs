/* Drives the page of a real scry serve in a real Chromium and prints one line of JSON per test: {"name", "error", "seconds"};
 * test_page.py starts the servers and the programs they look at, and makes tests of pytest of the lines.
 *
 * run.mjs CHROMIUM WORLD.json FOLDER [NAME...] */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

import { launch } from '../browser/launch.mjs';
import { access } from './access.mjs';
import { cluster } from './cluster.mjs';
import { profiles } from './profiles.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const tests = { ...cluster, ...profiles, ...access };

/* What a page must not do in any test: log an error, or ask anybody but its server. */
function watch(page, origin) {
  page.trouble = [];
  page.on('pageerror', (error) => page.trouble.push('error: ' + error.message));
  page.on('dialog', (dialog) => { page.trouble.push('dialog: ' + dialog.message()); dialog.dismiss(); });
  page.on('console', (message) => { if (message.type() === 'error') page.trouble.push(`console: ${message.text()} ${message.location().url}`); });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) page.trouble.push('asked elsewhere: ' + url);
  });
}

async function main() {
  const [chromium, world, folder, ...only] = process.argv.slice(2);
  const facts = JSON.parse(readFileSync(world, 'utf8'));
  const browser = await launch(chromium);
  const opened = [];
  const open = async (hash, { dark = false, width = 1280, height = 800, locale = 'en-US', url = facts.url, before = async () => {} } = {}) => {
    const context = await browser.newContext({
      viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', locale, acceptDownloads: true, reducedMotion: 'reduce',
      hasTouch: width < 500, permissions: ['clipboard-read', 'clipboard-write'],
    });
    const page = await context.newPage();
    page.setDefaultTimeout(30000);
    watch(page, url);
    opened.push(page);
    await before(page);
    await page.goto(url + hash);
    return page;
  };
  const tools = { ...facts, folder, open, axe: readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8') };
  for (const [name, test] of Object.entries(tests)) {
    if (only.length && !only.some((word) => name.includes(word))) continue;
    let error = '';
    const begun = performance.now();
    try {
      await test(tools);
      for (const page of opened) assert.deepEqual(page.trouble, []);
    } catch (e) {
      error = e.stack || String(e);
      const last = opened.at(-1);
      if (last) await last.screenshot({ path: `${folder}/failed.png` }).catch(() => {});
    }
    console.log(JSON.stringify({ name, error, seconds: (performance.now() - begun) / 1000 }));
    opened.length = 0;
    for (const context of browser.contexts()) await context.close();
  }
  await browser.close();
}

await main();
