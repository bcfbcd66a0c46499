/* Our files in speedscope itself, served from this machine. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';

const KINDS = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };

/* speedscope below /app, our profiles below /profile, on a port of the system's choice. */
async function serve(root, folder) {
  const release = join(root, 'node_modules/speedscope/dist/release');
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, 'http://localhost').pathname);
    const file = path.startsWith('/app/') ? join(release, path.slice(4)) : join(folder, path.replace('/profile', ''));
    try {
      const body = await readFile(file);
      response.writeHead(200, { 'content-type': KINDS[extname(file)] || 'application/octet-stream' });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

async function show({ root, folder, newPage }, file) {
  const server = await serve(root, folder);
  const page = await newPage();
  const trouble = [];
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') trouble.push(message.text()); });
  const at = `http://127.0.0.1:${server.address().port}`;
  await page.goto(`${at}/app/index.html#profileURL=${encodeURIComponent(`${at}/profile/${file}`)}`);
  return { page, trouble, close: () => server.close() };
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
