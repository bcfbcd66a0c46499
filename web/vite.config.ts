/* Builds the page into dist: index.html, assets/ with hashed names, and speedscope/, the viewer as its package has it. */
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

const VIEWER = new URL('node_modules/speedscope/', import.meta.url).pathname;

/* Not needed here: a sample profile, and the reader of a format that scry does not write. */
const LEFT_OUT = /^perf-vertx|\.wasm$|^file-format-schema|^release\.txt/;

/* One library in there asks for a module by eval, to hide it from bundlers, and goes on without it. The page's policy
 * forbids eval, which would show as an error in the console; so it goes on without at once. */
const HIDDEN_REQUIRE = 'eval("quire".replace(/^/,"re"))(moduleName)';

function speedscope(): Plugin {
  let out = '';
  return {
    name: 'speedscope',
    apply: 'build',
    configResolved(config) { out = join(config.root, config.build.outDir, 'speedscope'); },
    closeBundle() {
      const from = join(VIEWER, 'dist/release');
      mkdirSync(out, { recursive: true });
      for (const name of readdirSync(from).filter((file) => !LEFT_OUT.test(file))) {
        if (!name.endsWith('.js')) cpSync(join(from, name), join(out, name));
        else writeFileSync(join(out, name), readFileSync(join(from, name), 'utf8').replace(HIDDEN_REQUIRE, 'null'));
      }
      cpSync(join(VIEWER, 'LICENSE'), join(out, 'LICENSE'));
    },
  };
}

export default defineConfig({
  base: './',
  plugins: [speedscope()],
  server: { proxy: { '/api': process.env.SCRY_SERVER ?? 'http://127.0.0.1:8265' } },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: 'assets/licenses.md' },
  },
});
