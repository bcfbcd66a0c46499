/* What several tests do. */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

export const row = (page, pid) => page.locator(`.row.process[data-pid="${pid}"]`).first();

/* Only this process in the list: others on the machine come and go. */
export async function find(page, pid) {
  await page.getByLabel('Filter processes').fill(String(pid));
  await row(page, pid).waitFor();
  return row(page, pid);
}

/* Through the dialog to the flame graph; gives back the recording's id. */
export async function record(page, { seconds = 1, rate = 100, tick = [] } = {}) {
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Duration').fill(String(seconds));
  await dialog.getByLabel('Rate').fill(String(rate));
  for (const label of tick) await dialog.getByLabel(label).check();
  await dialog.getByRole('button', { name: 'Start recording' }).click();
  await page.waitForURL(/#\/recording\//);
  return (await page.evaluate(() => location.hash)).match(/recording\/([\w-]+)/)[1];
}

export async function recordProcess(page, pid, options) {
  await (await find(page, pid)).getByRole('button', { name: /CPU Flame Graph/ }).click();
  const id = await record(page, options);
  await page.getByRole('application').waitFor();
  return id;
}

/* What the selected box is, in the words beside the flame graph. */
export const said = (page) => page.locator('#flame-said').innerText();

/* Walks with the arrow keys from the root down the heaviest boxes until one is called so. */
export async function walkTo(page, name) {
  const graph = page.getByRole('application');
  await graph.focus();
  await page.keyboard.press('Escape');
  for (let i = 0; i < 40; i++) {
    if ((await page.locator('#flame-said h2').innerText()) === name) return;
    await page.keyboard.press('ArrowDown');
  }
  assert.fail(`no box "${name}" on the way down; the last was: ${await said(page)}`);
}

/* The page fits the width of its window. */
export async function fits(page) {
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= window, `the page is ${wide} wide in a window of ${window}`);
}

/* Asks until the answer is the expected one; what is shown follows a click, or a request, a moment later. */
export async function becomes(ask, expected) {
  let answer;
  for (const begun = performance.now(); performance.now() - begun < 20000;) {
    answer = await ask();
    if (isDeepStrictEqual(answer, expected)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.deepEqual(answer, expected);
}
