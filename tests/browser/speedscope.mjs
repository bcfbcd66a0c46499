/* Our files in speedscope itself, served from this machine. */
import assert from 'node:assert/strict';
import { join } from 'node:path';

import { serve } from './serve.mjs';

export async function show({ root, folder, newPage }, file) {
  const { at, close } = await serve({ app: join(root, 'node_modules/speedscope/dist/release'), profile: folder });
  const page = await newPage();
  const trouble = [];
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') trouble.push(message.text()); });
  await page.goto(`${at}/app/index.html#profileURL=${encodeURIComponent(`${at}/profile/${file}`)}`);
  return { page, trouble, close };
}

export const speedscope = {
  async 'speedscope opens our file and shows the main thread'(tools) {
    const file = tools.make('web', 'speedscope');
    const { page, trouble, close } = await show(tools, file);
    try {
      await page.getByText('Thread 4711 "MainThread"').first().waitFor();
      assert.deepEqual(trouble.filter((t) => !/favicon|404/.test(t)), []);
      await page.getByText('Sandwich').click();
      await page.getByText('price_of_basket', { exact: false }).first().waitFor();
      /* 30 s of wall time, not a count of samples. */
      assert.match(await page.locator('body').innerText(), /\d+\.\d+s/);
    } finally {
      close();
    }
  },

  async 'speedscope opens names that look like markup'(tools) {
    const { page, trouble, close } = await show(tools, tools.make('hostile', 'speedscope'));
    try {
      await page.getByText('Thread 100').first().waitFor();
      await page.getByText('Sandwich').click();
      await page.getByText('</script><script>alert(1)</script>').first().waitFor();
      assert.deepEqual(trouble.filter((t) => !/favicon|404/.test(t)), []);
    } finally {
      close();
    }
  },
};
