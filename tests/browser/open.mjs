/* Opens a profile in speedscope and a trace in Perfetto, and prints what they say of them, as JSON:
 * {"speedscope": its errors, "perfetto": its errors, "slices": how many of the trace's begin with WORD}
 *
 * open.mjs CHROMIUM PERFETTO FOLDER PROFILE TRACE WORD */
import { launch } from './launch.mjs';
import { ERRORS, load } from './perfetto.mjs';
import { show } from './speedscope.mjs';

const [chromium, perfetto, folder, profile, trace, word] = process.argv.slice(2);
const browser = await launch(chromium);
const tools = {
  perfetto, folder, root: new URL('../', import.meta.url).pathname, patience: 200000,
  newPage: async () => (await browser.newContext()).newPage(),
};

async function inSpeedscope() {
  const { page, trouble, close } = await show(tools, profile);
  await page.getByText(/\bThread \d+/).first().waitFor({ timeout: tools.patience });
  close();
  return { speedscope: trouble.filter((text) => !/favicon|404/.test(text)) };
}

async function inPerfetto() {
  const { query, close } = await load(tools, trace);
  const found = { perfetto: await query(ERRORS), slices: (await query(`select count(*) from slice where name glob '${word.replace('(', '[(]')}*'`))[0][0] };
  close();
  return found;
}

console.log(JSON.stringify({ ...await inSpeedscope(), ...await inPerfetto() }));
await browser.close();
