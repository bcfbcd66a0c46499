/* The cluster page, stack traces and live top, with the server and programs of test_page.py. */
import assert from 'node:assert/strict';

import { HOSTILE, cluster as many, node, pretend, process as made } from './made_up.mjs';
import { becomes, find, fits, row } from './steps.mjs';

export const cluster = {
  async 'the cluster page lists nodes and processes'({ open, worker }) {
    const page = await open('#/cluster');
    const found = await find(page, worker);
    assert.match(await found.innerText(), /train_step/);
    assert.equal(await found.locator('.c-threads').evaluate((e) => e.firstChild.textContent), '7');
    assert.match(await found.locator('.c-python').innerText(), /^3\.\d+\.\d+/);
    assert.match(await found.locator('.c-memory').innerText(), /MiB/);
    assert.ok((await found.locator('.c-user').innerText()).length > 0);
    await page.getByText('alpha', { exact: true }).first().waitFor();
    await page.getByText('beta', { exact: true }).first().waitFor();
    /* It works, and the list follows: a busy process has used CPU since the look before. */
    await page.waitForFunction((pid) => Number.parseFloat(document.querySelector(`[data-pid="${pid}"] .bar-text`)?.textContent ?? '0') > 1, worker);
  },

  async 'processes are filtered, sorted, grouped and folded'({ open, worker, second, tag }) {
    const page = await open('#/cluster');
    await page.getByLabel('Filter processes').fill(`train_step ${tag} alpha`);
    await row(page, worker).waitFor();
    const pids = () => page.locator('.row.process .c-pid').allInnerTexts();
    await becomes(async () => (await pids()).sort(), [worker, second].map(String).sort());
    await page.getByRole('button', { name: 'PID' }).click();
    await becomes(pids, [worker, second].sort((a, b) => a - b).map(String));
    await page.getByRole('button', { name: 'PID' }).click();
    await becomes(pids, [worker, second].sort((a, b) => b - a).map(String));
    await page.getByRole('button', { name: 'Collapse alpha' }).click();
    await row(page, worker).waitFor({ state: 'detached' });
    await page.getByLabel('Group by').selectOption('task');
    await page.locator('.row.group', { hasText: 'train_step' }).waitFor();
    await page.getByLabel('Filter processes').fill('no such thing');
    await page.getByText('Nothing matches the filter').waitFor();
  },

  async 'from the cluster page to the stack trace: equal stacks folded, what waits first'({ open, worker }) {
    const page = await open('#/cluster');
    await (await find(page, worker)).getByRole('link', { name: 'Stack Trace' }).click();
    await page.getByRole('heading', { name: 'Stack Trace' }).waitFor();
    const groups = page.locator('.stack');
    await groups.first().waitFor();
    assert.equal(await groups.count(), 3);
    assert.match(await groups.nth(0).innerText(), /5 threads[\s\S]*waits: [\s\S]*loader-0[\s\S]*loader-4[\s\S]*wait_for_batch[\s\S]*worker\.py/);
    assert.match(await groups.nth(1).innerText(), /1 thread[\s\S]*waits: [\s\S]*wait_for_orders/);
    assert.match(await groups.nth(2).innerText(), /running[\s\S]*MainThread[\s\S]*train_step/);
    await page.getByRole('button', { name: 'Variables' }).click();
    await page.locator('.locals').first().waitFor();
    await page.getByRole('button', { name: 'Copy as text' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /5 × [\s\S]*wait_for_batch/);
  },

  async 'a process that is gone: the server says so, and the page shows it'({ open, gone }) {
    const page = await open(`#/stack/self/${gone}`);
    await page.getByRole('alert').waitFor();
    assert.match(await page.getByRole('alert').innerText(), new RegExp(`${gone}`));
    page.trouble = page.trouble.filter((line) => !line.includes('404')); /* the browser's own line about it */
  },

  async 'live top renews itself, and can be paused'({ open, worker }) {
    const page = await open('#/cluster');
    await (await find(page, worker)).getByRole('link', { name: 'Live Top' }).click();
    const first = page.locator('table.functions').first();
    await first.getByText(/^(forward|backward)$/).first().waitFor();
    const facts = page.locator('.page > .facts');
    const before = await facts.innerText();
    await page.waitForFunction((text) => document.querySelector('.page > .facts').textContent !== text, before);
    await page.getByText('MainThread').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    const still = await first.innerText();
    await page.waitForTimeout(1500); /* longer than the server's interval: nothing may come */
    assert.equal(await first.innerText(), still);
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.waitForFunction((text) => document.querySelector('table.functions').innerText !== text, still);
  },

  async 'names that look like markup stay text'({ open, hostile }) {
    const page = await open('#/cluster');
    const found = await find(page, hostile);
    assert.ok((await found.innerText()).includes('<b>bold<script>'), await found.innerText());
    await found.getByRole('link', { name: 'Stack Trace' }).click();
    await page.getByText(HOSTILE.slice(0, 60), { exact: false }).first().waitFor();
    await page.goto(page.url().replace('/stack/', '/top/'));
    await page.getByText(HOSTILE.slice(0, 60), { exact: false }).first().waitFor();
    assert.equal(await page.locator('main img, main script').count(), 0);
    assert.notEqual(await page.title(), 'owned');
  },

  async 'a node that is down or slow says so, and pods and refusals are shown'({ open }) {
    const data = many(5, 30);
    data.processes[0] = made(0, node(0), { can_attach: false, why: 'not allowed', remedy: 'run as root', cpu_percent: 100 });
    const page = await open('#/cluster', { before: (p) => pretend(p, data) });
    await page.getByText('connection refused', { exact: false }).waitFor();
    await page.getByText('did not answer', { exact: false }).waitFor();
    assert.deepEqual(await page.locator('.row.group strong').allInnerTexts().then((names) => names.slice(0, 1)), ['worker-0']);
    const refused = row(page, 4000);
    assert.match(await refused.innerText(), /no access/);
    assert.match(await refused.innerText(), /raycluster-worker-0/);
  },

  async 'fifty thousand processes stay fluid'({ open }) {
    const page = await open('#/cluster', { before: (p) => pretend(p, many(1000, 50000)) });
    await page.getByText('50,000 processes').waitFor();
    assert.ok((await page.locator('.row').count()) < 100, 'rows out of sight exist');
    /* Scrolls over the whole list: what is drawn stays what can be seen. */
    const most = await page.locator('.rows').evaluate(async (list) => {
      const frame = () => new Promise(requestAnimationFrame);
      let rows = 0;
      for (let i = 1; i <= 60; i++) {
        list.scrollTop = (list.scrollHeight / 60) * i;
        await frame();
        rows = Math.max(rows, document.querySelectorAll('.row').length);
      }
      return rows;
    });
    assert.ok(most < 100, `${most} rows at once`);
    await page.getByLabel('Filter processes').fill('load_shard worker-999');
    await page.waitForFunction(() => document.querySelectorAll('.row.process').length > 0 && document.querySelectorAll('.row').length < 30);
    await fits(page);
  },
};
