/* Recordings: from the dialog to the flame graph, speedscope, history, comparison, many processes as one. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { kill } from 'node:process';

import { find, record, recordProcess, row, said, walkTo } from './steps.mjs';

export const profiles = {
  async 'CPU Flame Graph: dialog, countdown, flame graph, zoom, search'({ open, worker }) {
    const page = await open('#/cluster');
    await (await find(page, worker)).getByRole('button', { name: /CPU Flame Graph/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Duration').fill('0');
    await dialog.getByText('Between 0.1 and 60 seconds').waitFor();
    assert.ok(await dialog.getByRole('button', { name: 'Start recording' }).isDisabled());
    await record(page, { seconds: 2, rate: 200 });
    await page.getByRole('timer').waitFor();
    assert.match(await page.locator('.ring-text').innerText(), /^[12…]$/);
    await page.getByRole('application').waitFor();

    await walkTo(page, 'forward');
    assert.match(await said(page), /worker\.py:\d+[\s\S]*samples[\s\S]*% of all[\s\S]*% of its caller/);
    assert.match(await page.locator('table.lines').innerText(), /Line/); /* which lines of it */
    await page.keyboard.press('Enter'); /* zooms in: the way there is shown */
    await page.getByRole('button', { name: 'Reset zoom' }).waitFor();
    const path = page.getByRole('navigation', { name: 'Reset zoom' });
    assert.match(await path.innerText(), /all[\s\S]*train_step[\s\S]*forward/);
    /* The mouse does the same: the second row from above is the outermost frame, over the whole width. */
    await path.getByRole('button', { name: 'all' }).click();
    await page.locator('.flame canvas').click({ position: { x: 40, y: 30 } });
    assert.equal(await page.locator('#flame-said h2').innerText(), '<module>');

    await page.getByLabel('Search functions and files').fill('^(for|back)ward$');
    await page.getByText(/^(9\d\.\d|100) % in \d+ boxes$/).waitFor();
    await page.getByLabel('Search functions and files').fill('(');
    await page.getByText('not a valid pattern').waitFor();
  },

  async 'inverted, by line, one thread alone'({ open, worker }) {
    const page = await open('#/cluster');
    await recordProcess(page, worker, { tick: ['Idle threads'] });
    await page.getByRole('button', { name: 'thread', exact: true }).click();
    await page.getByRole('application').focus();
    await page.keyboard.press('ArrowDown');
    assert.match(await said(page), /loader-\d|orders|MainThread/);
    await page.getByLabel('Show').selectOption({ label: await page.locator('option', { hasText: 'MainThread' }).first().innerText() });
    await walkTo(page, 'train_step');
    await page.getByRole('button', { name: 'thread', exact: true }).click();
    await page.getByRole('button', { name: 'Inverted' }).click();
    await page.getByRole('application').focus();
    await page.keyboard.press('ArrowDown');
    assert.match(await said(page), /^(forward|backward)/);
    await page.getByRole('button', { name: 'Lines' }).click();
    await page.getByRole('application').focus();
    await page.keyboard.press('ArrowDown');
    assert.match(await said(page), /^(forward|backward):\d+/);
    await page.getByRole('tab', { name: 'Functions' }).click();
    await page.getByRole('cell', { name: 'wait_for_batch' }).waitFor();
  },

  async 'a recording can be cancelled'({ open, worker }) {
    const page = await open('#/cluster');
    await (await find(page, worker)).getByRole('button', { name: /CPU Flame Graph/ }).click();
    await record(page, { seconds: 50 });
    await page.waitForFunction(() => /[1-9]\d* samples so far/.test(document.body.innerText));
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('timer').waitFor({ state: 'detached' });
  },

  async 'speedscope shows the time order and the sandwich'({ open, worker }) {
    const page = await open('#/cluster');
    await recordProcess(page, worker);
    await page.getByRole('tab', { name: 'Time order' }).click();
    const viewer = page.frameLocator('iframe.viewer');
    await viewer.getByText('MainThread', { exact: false }).first().waitFor();
    await page.getByRole('tab', { name: 'Sandwich' }).click();
    await viewer.getByText('forward', { exact: false }).first().waitFor();
  },

  async 'history: found, renamed, kept, downloaded, deleted'({ open, second, folder }) {
    const page = await open('#/cluster');
    const id = await recordProcess(page, second);
    await page.getByRole('link', { name: 'History' }).click();
    const entry = page.locator(`tr[data-id="${id}"]`);
    await entry.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('slow <b>step</b>');
    await page.getByRole('button', { name: 'Save' }).click();
    await entry.getByRole('link', { name: 'slow <b>step</b>' }).waitFor();
    await entry.getByRole('button', { name: 'Keep' }).click();
    await entry.getByRole('button', { name: 'Kept' }).waitFor();
    await page.getByLabel('Search names and processes').fill('slow');
    await entry.waitFor();
    const coming = page.waitForEvent('download');
    await entry.getByLabel(/^Download/).selectOption('raw');
    await (await coming).saveAs(`${folder}/raw.txt`);
    assert.match(readFileSync(`${folder}/raw.txt`, 'utf8'), /train_step.*;(for|back)ward .* \d+/);
    await entry.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await entry.waitFor({ state: 'detached' });
  },

  async 'two recordings compared: what takes more, what less'({ open, second }) {
    const page = await open('#/cluster');
    const before = await recordProcess(page, second, { rate: 200 });
    kill(second, 'SIGUSR1'); /* from now on it works differently */
    await page.getByRole('link', { name: 'Cluster' }).click();
    const after = await recordProcess(page, second, { rate: 200 });
    await page.getByRole('link', { name: 'History' }).click();
    await page.locator(`tr[data-id="${after}"] input`).check();
    await page.locator(`tr[data-id="${before}"] input`).check();
    await page.getByRole('button', { name: 'Compare the two' }).click();
    await page.waitForURL(new RegExp(`#/diff/${before}/${after}`));
    await page.getByRole('application').waitFor();
    await walkTo(page, 'train_step');
    await page.keyboard.press('ArrowDown');
    if (!(await said(page)).startsWith('backward')) await page.keyboard.press('ArrowRight');
    assert.match(await said(page), /^backward[\s\S]*\+\d+\.\d %/);
    await page.getByRole('tab', { name: 'Functions' }).click();
    assert.match(await page.getByRole('row', { name: /backward/ }).innerText(), /^\+[3-9]\d\.\d %/);
    assert.match(await page.getByRole('row', { name: /forward/ }).innerText(), /^−[3-9]\d\.\d %/);
  },

  async 'many processes of two nodes become one profile, and split again'({ open, tag, worker, second }) {
    const page = await open('#/cluster');
    await page.getByLabel('Filter processes').fill(`${tag} alpha`);
    await row(page, worker).getByRole('checkbox').check();
    await page.getByLabel('Filter processes').fill(`${tag} beta`);
    await page.getByText('alpha', { exact: true }).waitFor({ state: 'detached' });
    await row(page, second).getByRole('checkbox').check();
    await page.getByText('2 processes selected').waitFor();
    await page.getByRole('button', { name: 'Merged Flame Graph' }).click();
    await page.getByText('Record 2 processes as one').waitFor();
    await record(page, { seconds: 1.5 });
    await page.getByRole('application').waitFor();
    await walkTo(page, 'train_step'); /* of both, as one box */
    assert.match(await said(page), /(9\d\.\d|100) % of all/);
    await page.getByRole('button', { name: 'node', exact: true }).click();
    await page.getByRole('button', { name: 'process', exact: true }).click();
    await page.getByRole('application').focus();
    const names = [];
    for (const key of ['ArrowDown', 'ArrowRight']) {
      await page.keyboard.press(key);
      names.push(await page.locator('#flame-said h2').innerText());
    }
    assert.deepEqual(names.sort(), ['alpha', 'beta']);
    await page.keyboard.press('ArrowDown');
    assert.match(await said(page), new RegExp(`${worker}|${second}`));
  },

  async 'a file asked for in the dialog comes by itself'({ open, worker, folder }) {
    const page = await open('#/cluster');
    await (await find(page, worker)).getByRole('button', { name: /CPU Flame Graph/ }).click();
    await page.getByLabel('Result').selectOption('speedscope');
    const coming = page.waitForEvent('download');
    await record(page);
    await (await coming).saveAs(`${folder}/profile.json`);
    assert.match(JSON.parse(readFileSync(`${folder}/profile.json`, 'utf8')).$schema, /speedscope/);
  },
};
