/* The browser of all tests: quiet, and nothing beyond the page itself. */
import { createRequire } from 'node:module';

const require = createRequire(new URL('../package.json', import.meta.url));
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--force-color-profile=srgb', '--font-render-hinting=none'];

export const launch = (chromium) => require('playwright-core').chromium.launch({ executablePath: chromium, args: FLAGS });
