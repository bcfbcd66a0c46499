/* Builds the page into dist: index.html, assets/ with hashed names, and speedscope/, the viewer as its package has it. */
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

const VIEWER = new URL('node_modules/speedscope/', import.meta.url).pathname;

/* Not needed here: a sample profile, and the reader of a format that scry does not write. */
const LEFT_OUT = /^perf-vertx|\.wasm$|^file-format-schema|^release\.txt/;

/* Two things in there that the page's policy forbids, and that would show as errors in the console: a library asks for a
 * module by eval, to hide it from bundlers, and goes on without it; and C++ names are demangled by WebAssembly, though
 * those that scry writes are demangled already. So it goes on without both at once. */
const TAKEN_OUT: [string, string][] = [
  ['eval("quire".replace(/^/,"re"))(moduleName)', 'null'],
  ['WebAssembly.instantiate(n.wasm,', 'new Promise(()=>{},n.wasm,'],
];

function patched(script: string): string {
  for (const [from, by] of TAKEN_OUT) {
    if (script.split(from).length !== 2) throw new Error(`speedscope has changed: '${from}' is not there once`);
    script = script.replace(from, () => by);
  }
  return script;
}

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
        if (/^speedscope.*\.js$/.test(name)) writeFileSync(join(out, name), patched(readFileSync(join(from, name), 'utf8')));
        else cpSync(join(from, name), join(out, name));
      }
      cpSync(join(VIEWER, 'LICENSE'), join(out, 'LICENSE'));
    },
  };
}

export default defineConfig({
  base: './',
  plugins: [speedscope()],
  server: { proxy: { '/api': process.env.SCRY_SERVER ?? 'http://127.0.0.1:8266' } },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: 'assets/licenses.md' },
  },
});
