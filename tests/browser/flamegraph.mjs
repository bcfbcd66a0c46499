/* The flame graph in a real browser. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/* What is seen of a box: its place in pixels, its text, and how it is marked; null when it is not shown. */
async function box(page, label) {
  return page.evaluate((wanted) => {
    for (const g of document.querySelectorAll('#frames g')) {
      const title = g.querySelector('title').textContent;
      if (!title.startsWith(wanted + ' (')) continue;
      if (g.style.display === 'none') return null;
      const { left, right, top, width } = g.querySelector('rect').getBoundingClientRect();
      return { left, right, top, width, text: g.querySelector('text').textContent, classes: g.getAttribute('class') || '' };
    }
    throw new Error('there is no box ' + wanted);
  }, label);
}

async function click(page, label, settled) {
  const { left, top, width } = await box(page, label);
  await page.mouse.click(left + width / 2, top + 8);
  await settled(page);
}

/* How many colours a picture has, and one of its pixels. */
async function pixels(page, picture, x, y) {
  return page.evaluate(async ([data, px, py]) => {
    const image = new Image();
    image.src = 'data:image/png;base64,' + data;
    await image.decode();
    const canvas = document.createElementNS('http://www.w3.org/1999/xhtml', 'canvas');
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const { data: bytes } = context.getImageData(0, 0, image.width, image.height);
    const seen = new Set(new Uint32Array(bytes.buffer));
    return { colours: seen.size, pixel: Array.from(context.getImageData(px, py, 1, 1).data.slice(0, 3)) };
  }, [picture.toString('base64'), x, y]);
}

const text = (page, selector) => page.locator(selector).textContent();
/* An input in an XML document; Playwright's own way knows those of HTML only. */
const searched = (page) => page.locator('#search').evaluate((input) => input.value);
const near = (a, b, message) => assert.ok(Math.abs(a - b) < 2, `${message}: ${a} is not ${b}`);
const WIDE = 'Flask.wsgi_app (flask/app.py:1511)', ROOT = 'all';

export const flamegraph = {
  async 'a recording of CPU time counts seconds, not samples'({ open, make }) {
    const page = await open(make('cpu', 'flamegraph'));
    const { left, top } = await box(page, 'App.run (app.py:12)');
    await page.mouse.move(left + 20, top + 8);
    assert.equal(await text(page, '#details'), 'App.run (app.py:12)  ·  0.070 s of CPU · 63.64% · self 18.18%');
    assert.ok((await text(page, '#title')).includes('0.11 s of CPU time'));
    assert.deepEqual(page.trouble, []);
  },

  async 'the boxes fill the window, whatever its width'({ open, make }) {
    for (const width of [500, 1200, 1900]) {
      const page = await open(make('web', 'flamegraph'), { width });
      const { left, right } = await box(page, ROOT);
      near(left, 10, 'left margin');
      near(right, width - 10, 'right margin');
      assert.deepEqual(page.trouble, []);
    }
  },

  async 'labels grow with the window and are never wider than their box'({ open, make }) {
    const lengths = [];
    for (const width of [500, 1900]) {
      const page = await open(make('web', 'flamegraph'), { width });
      lengths.push(await page.evaluate(() => {
        let sum = 0;
        for (const g of document.querySelectorAll('#frames g')) {
          const label = g.querySelector('text'), room = g.querySelector('rect').getBoundingClientRect().width;
          if (label.textContent && label.getComputedTextLength() > room)
            throw new Error(label.textContent + ' does not fit');
          sum += label.textContent.length;
        }
        return sum;
      }));
    }
    assert.ok(lengths[1] > 2 * lengths[0], String(lengths));
  },

  async 'of a qualified name that does not fit, the last part stays'({ open, make }) {
    const wanted = 'JSONEncoder.encode (json/encoder.py:200)', seen = [];
    for (const width of [700, 1300, 1800, 3600])
      seen.push((await box(await open(make('web', 'flamegraph'), { width }), wanted)).text);
    assert.deepEqual(seen, ['encode', 'encode', 'JSONEncoder.encode', wanted]);
  },

  async 'it follows the window when that is resized'({ open, make }) {
    const page = await open(make('web', 'flamegraph'), { width: 1200 });
    await page.setViewportSize({ width: 700, height: 500 });
    await page.waitForFunction(() => document.querySelector('#frames').getAttribute('width') === '680');
    near((await box(page, ROOT)).right, 690, 'right margin');
  },

  async 'a click zooms: the box fills the width, its callers fade, the others go'({ open, make, settled }) {
    const page = await open(make('web', 'flamegraph'));
    await click(page, 'api_orders (api.py:31)', settled);
    const zoomed = await box(page, 'api_orders (api.py:31)');
    near(zoomed.left, 10, 'left');
    near(zoomed.right, 1190, 'right');
    assert.equal(zoomed.classes, '');
    const caller = await box(page, WIDE);
    near(caller.width, 1180, 'width of the caller');
    assert.equal(caller.classes, 'faded');
    assert.equal(await box(page, 'discount (prices.py:41)'), null);
    assert.match((await box(page, 'dumps (json/__init__.py:238)')).text, /^dumps \(json/);
    await click(page, ROOT, settled);
    assert.notEqual(await box(page, 'discount (prices.py:41)'), null);
    assert.equal((await box(page, WIDE)).classes, '');
  },

  async 'zooming glides'({ open, make }) {
    const page = await open(make('web', 'flamegraph'), { clock: true });
    const { left, top, width } = await box(page, 'basket (views.py:52)');
    await page.mouse.click(left + 20, top + 8);
    const widths = [width];
    for (const ms of [60, 60, 60, 60, 60]) {
      await page.clock.runFor(ms);
      widths.push((await box(page, 'basket (views.py:52)')).width);
    }
    for (let i = 1; i < 4; i++) assert.ok(widths[i] > widths[i - 1], 'it grows: ' + widths);
    near(widths[5], 1180, 'width at the end');
    assert.equal(await page.evaluate(() => document.documentElement.dataset.ready), 'yes');
  },

  async 'the reset button is there while zoomed, and resets'({ open, make, settled }) {
    const page = await open(make('web', 'flamegraph'));
    assert.equal(await page.locator('#unzoom').isVisible(), false);
    await click(page, 'api_orders (api.py:31)', settled);
    await page.locator('#unzoom').click();
    await settled(page);
    assert.notEqual(await box(page, 'discount (prices.py:41)'), null);
    assert.equal(await page.locator('#unzoom').isVisible(), false);
  },

  async 'nothing in the header covers anything else, however narrow the window'({ open, make }) {
    for (const width of [420, 600, 800, 890, 910, 1400]) {
      const page = await open(make('web', 'flamegraph', '--threads'), { width, hash: '#frame=6&search=json' });
      const overlap = await page.evaluate(() => {
        const shown = [...document.querySelectorAll('#title, #legend, #details, #unzoom, #matched, foreignObject')]
          .map((e) => [e.id || e.tagName, e.getBoundingClientRect()]).filter(([, r]) => r.width > 1);
        for (const [a, r] of shown)
          for (const [b, q] of shown)
            if (a < b && r.left < q.right && q.left < r.right && r.top < q.bottom - 4 && q.top < r.bottom - 4) return `${a} and ${b}`;
        return shown.length >= 4 ? '' : 'something is missing';
      });
      assert.equal(overlap, '', `at ${width}`);
    }
  },

  async 'the address brings back zoom and search'({ open, make, settled }) {
    const file = make('web', 'flamegraph');
    const page = await open(file);
    await click(page, 'api_orders (api.py:31)', settled);
    await page.locator('#search').fill('json.*2[0-9]{2}\\)');
    const address = await page.evaluate(() => location.hash);
    assert.match(address, /frame=\d+/);
    assert.match(address, /search=/);
    const matched = await text(page, '#matched');
    const again = await open(file, { hash: address });
    near((await box(again, 'api_orders (api.py:31)')).width, 1180, 'width of the zoomed box');
    assert.equal(await searched(again), 'json.*2[0-9]{2}\\)');
    assert.equal(await text(again, '#matched'), matched);
  },

  async 'the back button undoes a zoom'({ open, make, settled }) {
    const page = await open(make('web', 'flamegraph'));
    await click(page, WIDE, settled);
    await click(page, 'api_orders (api.py:31)', settled);
    await page.goBack();
    await settled(page);
    near((await box(page, WIDE)).width, 1180, 'width');
    assert.notEqual(await box(page, 'discount (prices.py:41)'), null);
    await page.goForward();
    await settled(page);
    assert.equal(await box(page, 'discount (prices.py:41)'), null);
  },

  async 'a nonsense address is the whole graph'({ open, make }) {
    for (const hash of ['#frame=99999', '#frame=-1', '#frame=x&search=%', '#%%%', '#frame=1.5']) {
      const page = await open(make('basic', 'flamegraph'), { hash });
      near((await box(page, ROOT)).width, 1180, hash);
      assert.notEqual(await box(page, 'decode (json/decoder.py:355)'), null);
      assert.deepEqual(page.trouble, []);
    }
  },

  async 'search marks what matches and says how much of the time that is'({ open, make }) {
    const page = await open(make('basic', 'flamegraph'));
    await page.locator('#search').fill('load|decode');
    assert.equal(await text(page, '#matched'), 'Matched: 45.45% in 3 frames');
    assert.equal((await box(page, 'load (data.py:7)')).classes, 'match');
    assert.equal((await box(page, 'App.run (app.py:12)')).classes, '');
    await page.locator('#search').fill('nowhere');
    assert.equal(await text(page, '#matched'), 'Matched: 0.00% in 0 frames');
    await page.locator('#search').fill('');
    assert.equal(await text(page, '#matched'), '');
  },

  async 'capitals in a pattern count, without capitals the case does not'({ open, make }) {
    const page = await open(make('basic', 'flamegraph'));
    await page.locator('#search').fill('ssl_write');
    assert.match(await text(page, '#matched'), /in 1 frame$/);
    await page.locator('#search').fill('Ssl_write');
    assert.match(await text(page, '#matched'), /in 0 frames$/);
  },

  async 'what is no regular expression is searched as it stands'({ open, make }) {
    const page = await open(make('basic', 'flamegraph'));
    await page.locator('#search').fill('load (');
    assert.match(await text(page, '#matched'), /in 2 frames$/);
    assert.deepEqual(page.trouble, []);
  },

  async 'Ctrl-F goes to the search, Escape resets everything'({ open, make, settled }) {
    const page = await open(make('web', 'flamegraph'));
    await click(page, 'api_orders (api.py:31)', settled);
    await page.keyboard.press('Control+f');
    await page.keyboard.type('json');
    assert.match(await text(page, '#matched'), /Matched/);
    await page.keyboard.press('Escape');
    await settled(page);
    assert.equal(await text(page, '#matched'), '');
    assert.equal(await searched(page), '');
    assert.notEqual(await box(page, 'discount (prices.py:41)'), null);
    assert.equal(await page.evaluate(() => location.hash), '');
  },

  async 'the keyboard alone is enough'({ open, make, settled }) {
    const page = await open(make('web', 'flamegraph'));
    const focused = () => page.evaluate(() => {
      const at = document.activeElement, g = at && at.closest('#frames g');
      return g ? g.querySelector('title').textContent.replace(/ \([\d,]+ samples.*/, '') : at && at.id;
    });
    for (let i = 0; i < 5 && await focused() !== ROOT; i++) await page.keyboard.press('Tab');
    assert.equal(await focused(), ROOT);
    for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowDown');
    assert.equal(await focused(), 'basket (views.py:52)');
    await page.keyboard.press('ArrowRight');
    assert.equal(await focused(), 'basket (views.py:49)');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Enter');
    await settled(page);
    near((await box(page, 'basket (views.py:52)')).width, 1180, 'width');
    await page.keyboard.press('ArrowUp');
    assert.equal(await focused(), WIDE);
    await page.keyboard.press('Escape');
    await settled(page);
    assert.notEqual(await box(page, 'api_orders (api.py:31)'), null);
  },

  async 'pointing at a box tells its samples, share, seconds and own part'({ open, make }) {
    const page = await open(make('basic', 'flamegraph'));
    const { left, top } = await box(page, 'load (data.py:9)');
    await page.mouse.move(left + 20, top + 8);
    assert.equal(await text(page, '#details'), 'load (data.py:9)  ·  2 samples · 18.18% · 0.020 s · self 9.09%');
    await page.mouse.move(600, 600);
    assert.equal(await text(page, '#details'), '');
  },

  async 'names of the program are text, whatever they look like'({ open, make, settled }) {
    const page = await open(make('hostile', 'flamegraph', '--threads', '--processes'));
    const counts = await page.evaluate(() => ({
      scripts: document.querySelectorAll('script').length,
      images: document.querySelectorAll('img, image, a').length,
      handlers: document.querySelectorAll('[onload], [onerror], [onclick]').length,
      boxes: document.querySelectorAll('#frames g').length,
    }));
    assert.deepEqual(counts, { scripts: 1, images: 0, handlers: 0, boxes: 28 });
    await click(page, '</script><script>alert(1)</script>', settled);
    const { left, top } = await box(page, ']]><script>alert(2)</script>');
    await page.mouse.move(left + 20, top + 8);
    assert.match(await text(page, '#details'), /^\]\]><script>alert\(2\)<\/script>  ·/);
    await page.locator('#search').fill('</title><img src=x onerror=');
    assert.match(await text(page, '#matched'), /in 2 frames$/);
    assert.equal(await page.evaluate(() => document.querySelectorAll('script, img').length), 1);
    assert.deepEqual(page.trouble, []);
  },

  async 'it asks for nothing but itself'({ open, make, settled }) {
    const page = await open(make('hostile', 'flamegraph'));
    await page.locator('#search').fill('x');
    await click(page, ROOT, settled);
    assert.equal(page.requests.length, 1, page.requests.join(' '));
  },

  async 'without scripts it is a picture with labels and tooltips'({ open, make, newPage }) {
    const page = await open(make('web', 'flamegraph'), { js: false });
    const labels = await page.locator('#frames text').allTextContents();
    assert.ok(labels.includes('basket (views.py:52)'));
    assert.ok(labels.filter(Boolean).length > 20);
    assert.equal(await page.locator('#search').count(), 0, 'no control that would do nothing');
    const { colours } = await pixels(await newPage(), await page.screenshot(), 0, 0);
    assert.ok(colours > 100, String(colours));
  },

  async 'it works as an image inside a page'({ folder, make, newPage }) {
    const file = make('web', 'flamegraph');
    writeFileSync(join(folder, 'page.html'), `<!doctype html><body style="margin:0"><img id="i" src="${file}" width="600">`);
    const page = await newPage();
    await page.goto('file://' + join(folder, 'page.html'));
    const size = await page.evaluate(async () => {
      const image = document.querySelector('#i');
      await image.decode();
      return [image.naturalWidth, image.width, image.height < image.naturalHeight];
    });
    assert.deepEqual(size, [1200, 600, true]);
    const { colours } = await pixels(page, await page.screenshot(), 0, 0);
    assert.ok(colours > 100, String(colours));
  },

  async 'it is drawn: many colours, each origin its own'({ open, make, newPage }) {
    const page = await open(make('web', 'flamegraph'));
    const picture = await page.screenshot(), plain = await newPage();
    const of = async (label) => {
      const { right, top } = await box(page, label);
      return (await pixels(plain, picture, Math.round(right) - 8, Math.round(top) + 4)).pixel;
    };
    const [red, , blue] = await of('<module> (wsgi.py:12)');
    assert.ok(red > blue + 60, 'the program itself is warm');
    const [r, g, b] = await of(WIDE);
    assert.ok(g > r && g > b, 'packages are green');
    const [r2, , b2] = await of('Thread._bootstrap (threading.py:1014)');
    assert.ok(b2 > r2 + 40, 'the standard library is blue');
    assert.ok((await pixels(plain, picture, 0, 0)).colours > 200);
  },

  async 'in the dark it is dark, and labels are light'({ open, make, newPage }) {
    const page = await open(make('web', 'flamegraph'), { dark: true });
    const picture = await page.screenshot(), plain = await newPage();
    for (const [x, y] of [[3, 3], [600, 690]]) {
      const { pixel } = await pixels(plain, picture, x, y);
      assert.ok(Math.max(...pixel) < 60, `background at ${x},${y}: ${pixel}`);
    }
    const ink = await page.evaluate(() => getComputedStyle(document.querySelector('#frames text')).fill);
    assert.equal(ink, 'rgb(241, 241, 244)');
  },

  async 'labels can be read on every colour, light and dark'({ open, make }) {
    for (const dark of [false, true]) {
      const page = await open(make('basic', 'flamegraph'), { dark });
      const worst = await page.evaluate(() => {
        const light = (css) => {
          const channels = css.match(/\d+/g).slice(0, 3).map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
          return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
        };
        const ink = light(getComputedStyle(document.querySelector('#frames text')).fill);
        const rect = document.querySelector('#frames rect');
        let lowest = 99;
        for (const family of 'upscr')
          for (let shade = 0; shade < 8; shade++) {
            rect.setAttribute('class', family + shade);
            const paper = light(getComputedStyle(rect).fill);
            lowest = Math.min(lowest, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
          }
        return lowest;
      });
      assert.ok(worst >= 4.5, `contrast is only ${worst}`);
    }
  },

  async 'the header stays in sight in a deep graph'({ open, make }) {
    const page = await open(make('deep', 'flamegraph'), { height: 400 });
    await page.mouse.move(600, 300);
    await page.mouse.wheel(0, 50000);
    await page.waitForFunction(() => window.scrollY > 40000);
    await page.waitForFunction(() => {
      const { top } = document.querySelector('#title').getBoundingClientRect();
      return top > 0 && top < 40;
    });
    assert.ok(await page.locator('#search').isVisible());
  },

  async 'eight thousand boxes are still usable'({ open, make, settled }) {
    const page = await open(make('deep', 'flamegraph'));
    assert.equal(await page.locator('#frames g').count(), 8001);
    await page.locator('#search').fill('down');
    assert.match(await text(page, '#matched'), /Matched: 100.00% in 7,998 frames/);
    await click(page, 'down (deep.py:4)', settled);
    assert.deepEqual(page.trouble, []);
  },

  async 'an empty recording says why and what to do'({ open, make, newPage }) {
    const page = await open(make('empty', 'flamegraph'));
    assert.match(await page.locator('.why').textContent(), /probably idle.*--idle/);
    assert.deepEqual(page.trouble, []);
    const { colours } = await pixels(await newPage(), await page.screenshot(), 0, 0);
    assert.ok(colours > 10, String(colours));
  },
};
