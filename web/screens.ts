/**
 * `npm run console:screens`: writes screenshots of every view, at two widths and in both themes, to docs/screens/. They
 * are for manual review after a change; no test reads them.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TestBrowser } from '../test/support/browser.ts';
import { freshDataDir, repository, startHost } from '../test/support/host.ts';
import { signIn } from '../test/support/console.ts';
import { takeFirstRun } from './screens-first-run.ts';
import { takeGatewayScreens } from './screens-gateway.ts';

const views: Readonly<Record<string, string>> = {
  home: 'console',
  chat: 'console/chat',
  models: 'console/models',
  lab: 'console/lab',
  'lab-kernels': 'console/lab/kernels',
  'lab-kernel': 'console/lab/kernels/quick_norm',
  'lab-bench': 'console/lab/bench',
  'lab-configs': 'console/lab/configs',
  tasks: 'console/tasks',
  pending: 'console/pending',
  workflows: 'console/workflows',
  workflow: 'console/workflows/research-brief',
  runs: 'console/runs',
  sessions: 'console/sessions',
  observe: 'console/observe',
  'observe-trace': 'console/observe',
  'observe-explore': 'console/observe/explore',
  recorder: 'console/recorder',
  demo: 'demo/',
};

const folder = join(repository, 'docs/screens');
mkdirSync(folder, { recursive: true });
const dataDir = freshDataDir();
const host = startHost(['--gpu', '--port', '0', '--data-dir', dataDir]);
const url = await host.url();
const token = readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim();
const post = async (path: string, body: unknown) =>
  await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  }).then((response) => response.text());
for (const content of [
  'What is 27 + 48?',
  'Tell me a story about a fox named Mia.',
  'What is the capital of France?',
])
  await post('/v1/chat/completions', { messages: [{ role: 'user', content }], temperature: 0 });

// A kernel with three registrations, one of them wrong, and two benches of it.
const stub = (await fetch(`${url}/lab/v1/ops/rms_norm/stub`).then((answer) => answer.json())) as {
  source: string;
};
for (const source of [
  stub.source,
  stub.source.replace('norm_weight[c];', 'norm_weight[c] * 1.5;'),
  stub.source.replace('// ', '// The first version was slower.\n// '),
])
  await post('/lab/v1/kernels', { name: 'quick_norm', op: 'rms_norm', source });
await post('/lab/v1/bindings', { kernel: 'quick_norm', components: ['layers.*.attn.norm'] });
for (const rounds of [8, 12]) await post('/lab/v1/bench', { rounds, contexts: [32] });
await fetch(`${url}/lab/v1/bindings`, { method: 'DELETE' });

const browser = await TestBrowser.open();
/** Views named as arguments; without any, all. */
const requested = process.argv.slice(2);
for (const [name, path] of Object.entries(views)) {
  if (requested.length > 0 && !requested.includes(name)) continue;
  for (const [width, dark] of [
    [1440, false],
    [1440, true],
    [360, false],
    [360, true],
  ] as const) {
    const { page, idle, close } = await browser.page({ url: `${url}/${path}`, width, dark });
    await page.getByRole('heading', { level: 1 }).waitFor();
    if (/^(?:observe|recorder)/.test(name)) await signIn(page, token);
    if (name === 'observe-trace')
      await page.getByRole('table', { name: 'Requests', exact: true }).getByRole('link').first().click();
    if (name === 'chat') {
      const message = page.getByRole('textbox', { name: /message/i });
      await message.fill('What is the capital of France?');
      await message.press('Enter');
    }
    if (name === 'lab')
      await page
        .getByRole('button', { name: /measure/i })
        .first()
        .click();
    if (name === 'lab-kernels') {
      await page.getByLabel('Op', { exact: true }).selectOption('rms_norm');
      await page.getByRole('button', { name: 'Check and register' }).click();
      await page.getByRole('heading', { name: /accepted/ }).waitFor();
    }
    if (name === 'demo') await page.getByText(/ready/i).first().waitFor();
    // Drawings and charts render shortly after the last response.
    await idle();
    await page.waitForTimeout(name === 'lab' ? 9000 : 1200);
    if (await page.getByText('Something went wrong').count()) throw new Error(`${name} broke`);
    const file = join(folder, `${name}-${width}-${dark ? 'dark' : 'light'}.jpg`);
    await page.screenshot({ path: file, type: 'jpeg', quality: 72, fullPage: width > 400 });
    // The picture of README.md: the source and the gate's verdict.
    if (name === 'lab-kernels' && width > 400 && !dark)
      await page.screenshot({
        path: join(folder, 'workbench.jpg'),
        type: 'jpeg',
        quality: 72,
        fullPage: true,
        clip: { x: 0, y: 0, width, height: 1280 },
      });
    await close();
  }
  process.stdout.write(`${name}\n`);
}
await takeGatewayScreens(browser, folder, requested);
if (requested.length === 0 || requested.includes('first-run')) await takeFirstRun(browser, folder);
await browser.close();
await host.end();
