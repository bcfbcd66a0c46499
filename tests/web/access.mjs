/* For everybody: keyboard, phone, dark, Chinese, screen readers; and a server that asks who is there. */
import assert from 'node:assert/strict';

import { find, fits, recordProcess } from './steps.mjs';

/* Of all kinds, or only too little contrast: nothing else depends on the colours. */
async function faults(page, axe, onlyContrast) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  const options = { iframes: false, resultTypes: ['violations'], ...(onlyContrast ? { runOnly: ['color-contrast'] } : {}) };
  const { violations } = await page.evaluate((o) => window.axe.run(document, o), options);
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${location(page)} ${id}: ${nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + ' ' + n.failureSummary).join(' | ')}`);
}
const location = (page) => new URL(page.url()).hash;

export const access = {
  async 'axe finds no serious fault, in light and dark'({ open, axe, worker }) {
    const light = await open('#/cluster');
    const first = await recordProcess(light, worker);
    const found = [];
    const views = ['#/cluster', `#/stack/self/${worker}`, `#/top/self/${worker}`, `#/recording/${first}`, `#/recording/${first}?view=functions`,
      `#/recording/${first}?view=files`, '#/history', `#/top/self/${worker}`, `#/diff/${first}/${first}`, `#/diff/${first}/${first}?view=functions`, '#/nowhere'];
    for (const dark of [false, true]) {
      const page = dark ? await open('#/cluster', { dark }) : light;
      for (const view of views) {
        await page.evaluate((hash) => { location.hash = hash; }, view);
        await page.waitForFunction(() => !document.querySelector('.loading') && document.querySelector('main h1, main .nothing'));
        found.push(...await faults(page, axe, dark));
      }
      await page.evaluate(() => { location.hash = '#/cluster'; });
      await (await find(page, worker)).getByRole('button', { name: /CPU Flame Graph/ }).click();
      found.push(...await faults(page, axe, dark));
    }
    assert.deepEqual(found, []);
  },

  async 'the keyboard alone leads from the list to a flame graph'({ open, worker }) {
    const page = await open('#/cluster');
    await page.locator('.row.process').first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type(String(worker));
    await page.locator('.row.process').nth(2).waitFor({ state: 'detached' });
    const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent);
    for (let i = 0; i < 40 && (await focused()) !== `CPU Flame Graph of process ${worker}`; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowUp'); /* the row above is the node; its only control */
    assert.match(await focused(), /^Collapse (alpha|beta)$/);
    await page.keyboard.press('ArrowDown');
    for (let i = 0; i < 5 && (await focused()) !== `CPU Flame Graph of process ${worker}`; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('Enter'); /* the focus went back to the button */
    await page.getByLabel('Duration').fill('1');
    await page.keyboard.press('Enter');
    await page.getByRole('application').waitFor();
    for (let i = 0; i < 40 && !(await focused())?.startsWith('Flame graph.'); i++) await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowDown');
    assert.equal(await page.locator('#flame-said h2').innerText(), '<module>');
    for (let i = 0; i < 20 && (await focused()) !== 'Flame graph'; i++) await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('ArrowRight');
    await page.locator('[role=tab][aria-selected=true]', { hasText: 'Functions' }).waitFor();
  },

  async 'on a phone nothing is wider than the screen'({ open, worker }) {
    const page = await open('#/cluster', { width: 390, height: 844, dark: true });
    await find(page, worker);
    await fits(page);
    const id = await recordProcess(page, worker);
    for (const view of [`#/recording/${id}`, `#/recording/${id}?view=functions`, `#/stack/self/${worker}`, '#/history', `#/diff/${id}/${id}`]) {
      await page.evaluate((hash) => { location.hash = hash; }, view);
      await page.waitForFunction(() => !document.querySelector('.loading') && document.querySelector('main h1'));
      await fits(page);
    }
  },

  async 'Chinese by the browser, English by a click, and it is remembered'({ open }) {
    const page = await open('#/cluster', { locale: 'zh-CN' });
    await page.getByRole('heading', { name: '集群' }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
    await page.getByRole('button', { name: 'English' }).click();
    await page.getByRole('heading', { name: 'Cluster' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Cluster' }).waitFor();
  },

  async 'light and dark by the system, or by a click'({ open }) {
    const page = await open('#/cluster', { dark: true });
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await ground();
    await page.getByRole('button', { name: 'Colours: as the system' }).click();
    await page.getByRole('button', { name: 'Colours: light' }).waitFor();
    assert.notEqual(await ground(), dark);
    await page.getByRole('button', { name: 'Colours: light' }).click();
    await page.getByRole('button', { name: 'Colours: dark' }).waitFor();
    assert.equal(await ground(), dark);
  },

  async 'a server with a token asks for it'({ open, guarded, token }) {
    const page = await open('#/cluster', { url: guarded });
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('That is not the token').waitFor();
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.locator('.row.process').first().waitFor();
    page.trouble = page.trouble.filter((line) => !line.includes('401')); /* the browser's own lines about it */
  },
};
