/* The pictures of the page: page_pictures.mjs CHROMIUM URL PID FOLDER. page_pictures.py starts what they show. */
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(new URL('../tests/package.json', import.meta.url));
const [chromium, url, pid, folder] = process.argv.slice(2);
const browser = await require('playwright-core').chromium.launch({
  executablePath: chromium, args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb', '--font-render-hinting=none'],
});

async function open(hash, { dark = false, phone = false, locale = 'en-US' } = {}) {
  const context = await browser.newContext({
    viewport: phone ? { width: 390, height: 760 } : { width: 1280, height: 720 }, deviceScaleFactor: phone ? 1.5 : 1, locale,
    colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  await page.goto(url + hash);
  await page.locator('main h1').waitFor();
  return page;
}

const shoot = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

async function record(page, seconds) {
  await page.getByRole('button', { name: `CPU Flame Graph of process ${pid}` }).click();
  await page.getByLabel('Duration').fill(String(seconds));
  await page.getByLabel('Rate').fill('500');
  await page.getByRole('button', { name: 'Start recording' }).click();
  await page.getByRole('application').waitFor();
  return page.evaluate(() => location.hash.match(/recording\/([\w-]+)/)[1]);
}

const cluster = await open('#/cluster');
await cluster.locator('.row.process').nth(3).waitFor();
await cluster.waitForTimeout(5000); /* so that the CPU shares are those of now */
await shoot(cluster, 'page-cluster');
const first = await record(cluster, 6);
await cluster.mouse.move(470, 330);
await shoot(cluster, 'page-flamegraph');

const dark = await open(`#/recording/${first}?search=statistics`, { dark: true });
await dark.getByRole('application').waitFor();
await shoot(dark, 'page-dark');

const stack = await open(`#/stack/self/${pid}`, { dark: true });
await stack.locator('.stack').first().waitFor();
await shoot(stack, 'page-stack');

for (const [name, hash] of [['page-phone', '#/cluster'], ['page-phone-stack', `#/stack/self/${pid}`]]) {
  const phone = await open(hash, { phone: true, dark: name.endsWith('stack') });
  await phone.locator('.row.process, .stack').first().waitFor();
  await phone.waitForTimeout(2500);
  await shoot(phone, name);
}

const chinese = await open('#/cluster', { locale: 'zh-CN' });
await chinese.locator('.row.process').nth(3).waitFor();
await chinese.waitForTimeout(2500);
await shoot(chinese, 'page-cluster-zh');
await browser.close();
