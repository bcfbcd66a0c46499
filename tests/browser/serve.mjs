/* A web server on this machine alone: folders by the first part of the path, on a port of the system's choice. */
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';

const KINDS = {
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.wasm': 'application/wasm',
};

/* serve({ app: '/folder' }) -> { at: 'http://127.0.0.1:PORT', close() } */
export async function serve(folders) {
  const server = createServer(async (request, response) => {
    const [, first, ...rest] = normalize(new URL(request.url, 'http://localhost').pathname).split('/');
    try {
      const file = join(folders[first], ...rest);
      const body = await readFile(file);
      response.writeHead(200, { 'content-type': KINDS[extname(file)] || 'application/octet-stream' });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { at: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
