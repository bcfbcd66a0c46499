/* The differential flame graph in a real browser. */
import assert from 'node:assert/strict';

/* The first box of a function in the view that is shown; null when there is none. */
async function box(page, label) {
  return page.evaluate((wanted) => {
    const view = Array.from(document.querySelectorAll('.frames')).find((v) => v.style.display !== 'none');
    for (const g of view.querySelectorAll('g')) {
      const title = g.querySelector('title').textContent, rect = g.querySelector('rect');
      if (!title.startsWith(wanted + ' (') || g.style.display === 'none') continue;
      const { left, right, top, width } = rect.getBoundingClientRect();
      const [red, green, blue] = getComputedStyle(rect).fill.match(/\d+/g).map(Number);
      return { left, right, top, width, title, red, green, blue, view: view.id };
    }
    return null;
  }, label);
}

const text = (page, selector) => page.locator(selector).textContent();
const near = (a, b, message) => assert.ok(Math.abs(a - b) < 2, `${message}: ${a} is not ${b}`);
const share = (title, moment) => Number(new RegExp(moment + ' ([\\d.]+)%').exec(title)[1]);
const discount = 'discount (prices.py)', gone = 'load_items (models.py)', fresh = 'load_items_cached (cache.py)';
const ROOM = 1180; /* pixels the root takes at the usual width */

export const diff = {
  async 'what grew is red, what shrank is blue, by its width after'({ open, compare }) {
    const page = await open(compare('web', 'web-next'));
    const grew = await box(page, discount), shrank = await box(page, 'dumps (json/__init__.py)');
    assert.equal(grew.view, 'frames-after');
    assert.ok(grew.red > grew.blue + 60, JSON.stringify(grew));
    assert.ok(shrank.blue > shrank.red + 30, JSON.stringify(shrank));
    const noise = await box(page, 'escape (markupsafe/__init__.py)');
    assert.ok(Math.abs(noise.red - noise.blue) < 10 && noise.title.includes('within noise'), JSON.stringify(noise));
    near(grew.width, share(grew.title, 'after') / 100 * ROOM, 'width');
    const root = await box(page, 'all');
    assert.ok(Math.abs(root.red - root.blue) < 10, 'nothing can become of all');
    assert.equal(await box(page, gone), null);
    assert.ok((await box(page, fresh)).width > 20);
    assert.deepEqual(page.trouble, []);
  },

  async 'the switch shows what vanished, and back'({ open, compare, settled }) {
    const page = await open(compare('web', 'web-next'));
    assert.equal(await text(page, '#other'), 'Widths: after · switch to before');
    await page.locator('#other').click();
    await settled(page);
    const vanished = await box(page, gone);
    assert.equal(vanished.view, 'frames-before');
    assert.ok(vanished.blue > vanished.red + 60, JSON.stringify(vanished));
    near(vanished.width, share(vanished.title, 'before') / 100 * ROOM, 'width');
    assert.equal(await box(page, fresh), null);
    assert.equal(await text(page, '#other'), 'Widths: before · switch to after');
    assert.match(page.url(), /#widths=before$/);
    await page.goBack();
    await page.waitForFunction(() => document.querySelector('#frames-before').style.display === 'none');
    await settled(page);
    assert.equal((await box(page, 'all')).view, 'frames-after');
    assert.deepEqual(page.trouble, []);
  },

  async 'the switch keeps zoom and search'({ open, compare, settled }) {
    const page = await open(compare('web', 'web-next'));
    const basket = 'basket (views.py)';
    const { left, top, width } = await box(page, basket);
    await page.mouse.click(left + width / 2, top + 8);
    await settled(page);
    near((await box(page, basket)).width, ROOM, 'zoomed');
    await page.locator('#search').focus();
    await page.keyboard.type('load_items');
    assert.match(await text(page, '#matched'), /^Matched: [\d.]+% in \d+ frames?$/);
    const matched = await text(page, '#matched');
    await page.locator('#other').click();
    await settled(page);
    near((await box(page, basket)).width, ROOM, 'still zoomed');
    assert.notEqual(await text(page, '#matched'), matched);
    await page.keyboard.press('Escape');
    await settled(page);
    near((await box(page, 'all')).width, ROOM, 'reset');
    assert.equal((await box(page, 'all')).view, 'frames-before');
    assert.deepEqual(page.trouble, []);
  },

  async 'the address brings back the widths and the zoom'({ open, compare, settled }) {
    const file = compare('web', 'web-next');
    const page = await open(file, { hash: '#widths=before' });
    const { left, top, width } = await box(page, gone);
    await page.mouse.click(left + width / 2, top + 8);
    await settled(page);
    const again = await open(file, { hash: new URL(page.url()).hash });
    const zoomed = await box(again, gone);
    assert.equal(zoomed.view, 'frames-before');
    near(zoomed.width, ROOM, 'zoomed');
  },

  async 'a box under the pointer tells before and after'({ open, compare }) {
    const page = await open(compare('web', 'web-next'));
    const { left, top, width, title } = await box(page, discount);
    await page.mouse.move(left + width / 2, top + 8);
    const details = await text(page, '#details');
    assert.ok(details.startsWith(discount), details);
    assert.match(details, /before [\d.]+%, after [\d.]+%, \+[\d.]+ points, own \+[\d.]+, [\d,]+ → [\d,]+ samples$/);
    assert.ok(title.includes(details.split('·')[1].trim()));
  },

  async 'the other widths first, without a script'({ open, compare }) {
    const page = await open(compare('web', 'web-next', '--widths', 'before'), { js: false });
    const state = await page.locator('.frames').evaluateAll((all) => all.map((v) => [v.id, getComputedStyle(v).display]));
    assert.deepEqual(state, [['frames-before', 'inline'], ['frames-after', 'none']]);
    assert.equal(await page.locator('#other').count(), 0);
  },

  async 'labels can be read on every colour, light and dark'({ open, compare }) {
    for (const dark of [false, true]) {
      const page = await open(compare('web', 'web-next'), { dark });
      const worst = await page.evaluate(() => {
        const light = (colour) => {
          const [r, g, b] = colour.match(/\d+/g).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ink = light(getComputedStyle(document.querySelector('.frames text')).fill);
        const rect = document.querySelector('.frames rect');
        const contrasts = [];
        for (const name of ['d0', ...Array.from('123456').flatMap((n) => ['d' + n, 'g' + n])]) {
          rect.setAttribute('class', name);
          const paper = light(getComputedStyle(rect).fill);
          contrasts.push([(Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), name]);
        }
        return contrasts.sort((a, b) => a[0] - b[0])[0];
      });
      assert.ok(worst[0] >= 4.5, `${worst}, dark: ${dark}`);
    }
  },

  async 'hostile names stay text in a comparison'({ open, compare }) {
    const page = await open(compare('hostile', 'web', '--threads'));
    assert.equal(await page.locator('script').count(), 1);
    await page.locator('#other').click();
    assert.deepEqual(page.trouble, []);
  },
};
