/* The html report in a real browser: every view, by mouse and by keyboard. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';

const boxes = (page) => page.locator('.box').evaluateAll((all) => all.map((e) => ({ title: e.title, width: e.getBoundingClientRect().width, faded: e.classList.contains('faded') })));
const box = (page, label) => page.locator(`.box[title^=${JSON.stringify(label + ':')}]`).first();
const views = ['flame', 'inverted', 'time', 'functions', 'lines', 'source'];

export const report = {
  async 'report: every view, with pictures, and nothing is fetched'({ open, make, settled, folder }) {
    const page = await open(make('web', 'html'));
    for (const dark of [false, true]) {
      if (dark) await page.locator('#theme').click();
      for (const view of views) {
        await page.locator('#tab-' + view).click();
        await settled(page);
        const picture = join(folder, `report-${view}-${dark ? 'dark' : 'light'}.png`);
        await page.screenshot({ path: picture });
        assert.ok(statSync(picture).size > 5000, view);
        assert.equal(await page.locator('#tab-' + view).getAttribute('aria-selected'), 'true');
      }
    }
    assert.equal(page.requests.length, 1, page.requests.join(' '));
    assert.deepEqual(page.trouble, []);
  },

  async 'report: widths are shares of the samples'({ open, make }) {
    const page = await open(make('basic', 'html'));
    const all = await boxes(page);
    const root = all.find((b) => b.title.startsWith('all: 11 samples'));
    assert.ok(root, JSON.stringify(all.slice(0, 3)));
    const run = all.find((b) => b.title.startsWith('App.run (app.py): 7 samples, 63.64 %, 2 samples by itself'));
    assert.ok(run && Math.abs(run.width / root.width - 7 / 11) < 0.01, JSON.stringify(all));
  },

  async 'report: zoom and back by mouse and by keyboard'({ open, make, settled }) {
    const page = await open(make('basic', 'html'));
    await box(page, 'App.run (app.py)').click();
    await settled(page);
    const root = await box(page, 'all').boundingBox(), run = await box(page, 'App.run (app.py)').boundingBox();
    assert.ok(Math.abs(root.width - run.width) < 2);
    await page.keyboard.press('Escape');
    await settled(page);
    assert.ok((await box(page, 'App.run (app.py)').boundingBox()).width < root.width * 0.7);
    await box(page, 'all').focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    assert.match(await page.evaluate(() => document.activeElement.title), /^App\.run/);
    await page.keyboard.press('Enter');
    await settled(page);
    assert.ok(Math.abs((await box(page, 'App.run (app.py)').boundingBox()).width - root.width) < 2);
    assert.deepEqual(page.trouble, []);
  },

  async 'report: inverted, leaves come first and their callers below'({ open, make, settled }) {
    const page = await open(make('basic', 'html'));
    await page.keyboard.press('2');
    await settled(page);
    const all = await page.locator('.box').evaluateAll((list) => list.map((e) => ({ title: e.title, top: parseFloat(e.style.top) })));
    const leaf = all.find((b) => b.title.startsWith('SSL_write')), caller = all.find((b) => b.top > leaf.top && b.title.startsWith('post'));
    assert.ok(leaf && caller && leaf.top === 18, JSON.stringify(all));
  },

  async 'report: tables, sorted, searched, and on to the source'({ open, make, settled }) {
    const page = await open(make('basic', 'html'));
    await page.keyboard.press('4');
    await settled(page);
    const cells = () => page.locator('#table tbody tr').evaluateAll((rows) => rows.map((r) => [...r.cells].map((c) => c.textContent)));
    const rows = await cells(), load = rows.find((r) => r[4].startsWith('load'));
    assert.deepEqual(load.slice(2, 4), ['4', '5']);
    assert.deepEqual(rows.map((r) => Number(r[2])), rows.map((r) => Number(r[2])).sort((a, b) => b - a));
    await page.locator('th button', { hasText: 'Total samples' }).click();
    assert.equal((await cells())[0][3], '7');
    await page.keyboard.press('/');
    await page.keyboard.type('^load');
    assert.deepEqual((await cells()).map((r) => r[4]), ['load (data.py)']);
    await page.locator('#table tbody tr').first().focus();
    await page.keyboard.press('Enter');
    await settled(page);
    assert.match(await page.locator('#code').textContent(), /could not be read/);
    assert.deepEqual(page.trouble, []);
  },

  async 'report: the time line says what ran when'({ open, make, settled }) {
    const page = await open(make('basic', 'html'));
    await page.keyboard.press('3');
    await settled(page);
    assert.equal(await page.locator('.track').count(), 3);
    const first = page.locator('.track svg').first();
    const area = await first.boundingBox();
    await page.mouse.move(area.x + area.width * 0.08, area.y + 10);
    assert.match(await page.locator('.says').textContent(), /^0\.01 s: load \(data\.py:\d+\)/);
    await page.mouse.move(area.x + area.width * 0.5, area.y + 10);
    assert.match(await page.locator('.says').textContent(), /not running/);
    await first.focus();
    await page.keyboard.press('ArrowRight');
    assert.match(await page.locator('.says').textContent(), / s: /);
  },

  async 'report: one thread, and by line'({ open, make, settled }) {
    const page = await open(make('basic', 'html'));
    await page.locator('#track').selectOption('1');
    await settled(page);
    assert.match((await boxes(page))[0].title, /^all: 3 samples/);
    await page.locator('#track').selectOption('-1');
    await page.locator('#by-line').check();
    await settled(page);
    assert.ok((await boxes(page)).some((b) => b.title.startsWith('load (data.py:7)')));
  },

  async 'report: hostile names are text'({ open, make, settled }) {
    const page = await open(make('hostile', 'html'));
    for (const view of views) {
      await page.locator('#tab-' + view).click();
      await settled(page);
    }
    assert.equal(await page.locator('main script, main img, main iframe, main a').count(), 0);
    assert.deepEqual(page.trouble, []);
    assert.equal(page.requests.length, 1);
  },

  async 'report: nothing recorded, deep and huge recordings'({ open, make, settled }) {
    const empty = await open(make('empty', 'html'));
    assert.match(await empty.locator('main').textContent(), /No samples/);
    for (const name of ['deep', 'huge']) {
      const page = await open(make(name, 'html'));
      for (const view of views) {
        await page.locator('#tab-' + view).click();
        await settled(page);
      }
      assert.deepEqual(page.trouble, []);
    }
  },

  async 'report: narrow and dark'({ open, make }) {
    const page = await open(make('web', 'html'), { dark: true, width: 420, height: 700 });
    assert.ok(await page.evaluate(() => document.documentElement.classList.contains('dark')));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1));
  },
};
