/* Runs the browser tests and prints one line of JSON per test: {"name", "error", "seconds"}; test_browser.py makes them
 * tests of pytest.
 *
 * run.mjs MAKE_PROFILE CHROMIUM FOLDER PERFETTO SCRY */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { diff } from './diff.mjs';
import { flamegraph } from './flamegraph.mjs';
import { launch } from './launch.mjs';
import { perfetto } from './perfetto.mjs';
import { report } from './report.mjs';
import { speedscope } from './speedscope.mjs';

const tests = { ...flamegraph, ...diff, ...perfetto, ...report, ...speedscope };

async function open(browser, folder, file, { hash = '', js = true, dark = false, clock = false, width = 1200, height = 700 } = {}) {
  const context = await browser.newContext({
    viewport: { width, height }, javaScriptEnabled: js, colorScheme: dark ? 'dark' : 'light',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.trouble = [];
  page.requests = [];
  page.on('pageerror', (error) => page.trouble.push('error: ' + error.message));
  page.on('dialog', (dialog) => { page.trouble.push('dialog: ' + dialog.message()); dialog.dismiss(); });
  page.on('request', (request) => page.requests.push(request.url()));
  if (clock) await page.clock.install({ time: 0 });
  await page.goto('file://' + join(folder, file) + hash);
  if (clock) await page.clock.pauseAt(3600000); /* from here on, time is what runFor() makes of it */
  if (js) await settled(page);
  return page;
}

/* The graph says itself when it has come to rest. */
async function settled(page) {
  await page.waitForFunction(() => document.documentElement.dataset.ready !== 'no');
}

async function main() {
  const [maker, chromium, parent, perfettoFolder, scry] = process.argv.slice(2);
  const folder = mkdtempSync(join(parent, 'browser-'));
  const make = (name, format, ...options) => {
    const file = [name, ...options].join('') + '.' + (format === 'flamegraph' ? 'svg' : format);
    execFileSync(maker, [name, format, join(folder, file), ...options]);
    return file;
  };
  /* Two fixed recordings compared. */
  const compare = (before, after, ...options) => {
    const file = ['diff', before, after, ...options].join('-') + '.svg';
    const inputs = [make(before, 'scry'), make(after, 'scry')].map((name) => join(folder, name));
    execFileSync(scry, ['diff', '-o', join(folder, file), ...options, ...inputs], { stdio: ['ignore', 'ignore', 'pipe'] });
    return file;
  };
  /* A trace of every call, by the tracer that test_browser.py has made ready. */
  const trace = (suffix) => {
    const file = 'trace.' + suffix;
    execFileSync(process.env.SCRY_TRACE_PYTHON, [new URL('../trace/traced.py', import.meta.url).pathname, join(folder, file)]);
    return file;
  };
  /* One of every kind, in several formats: { kind: [files] }. */
  const kinds = () => JSON.parse(execFileSync(process.env.SCRY_TRACE_PYTHON,
    [new URL('../trace/kinds.py', import.meta.url).pathname, folder], { encoding: 'utf8' }));
  const browser = await launch(chromium);
  const tools = {
    folder, make, compare, trace, kinds, settled, read: (file) => readFileSync(join(folder, file), 'utf8'),
    open: (file, options) => open(browser, folder, file, options),
    newPage: async () => (await browser.newContext({ viewport: { width: 1200, height: 700 } })).newPage(),
    root: new URL('../', import.meta.url).pathname,
    perfetto: perfettoFolder,
  };
  for (const [name, test] of Object.entries(tests)) {
    let error = '';
    const begun = performance.now();
    try {
      await test(tools);
    } catch (e) {
      error = e.stack || String(e);
    }
    console.log(JSON.stringify({ name, error, seconds: (performance.now() - begun) / 1000 }));
    for (const context of browser.contexts()) await context.close();
  }
  await browser.close();
}

await main();
