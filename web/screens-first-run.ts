import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import type { TestBrowser } from '../test/support/browser.ts';
import { signIn } from '../test/support/console.ts';
import { freshDataDir, startHost } from '../test/support/host.ts';

/**
 * Takes the first ten minutes of a new user as a series of pictures with captions: first-run/README.md. The host starts with an
 * empty data directory and the embedded model, and everything is done with the mouse and the keyboard.
 */
export async function takeFirstRun(browser: TestBrowser, screens: string): Promise<void> {
  const folder = join(screens, 'first-run');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const work = join(freshDataDir(), 'notes');
  mkdirSync(work);
  const dataDir = freshDataDir();
  const host = startHost(['--gpu', '--port', '0', '--data-dir', dataDir]);
  const url = await host.url();
  const { page, idle, close } = await browser.page({ url: `${url}/console`, width: 1280, height: 860 });
  const captions: string[] = [];
  const take = async (name: string, caption: string) => {
    await idle();
    // Charts and drawings render shortly after the last response.
    await page.waitForTimeout(1200);
    const file = `${String(captions.length + 1).padStart(2, '0')}-${name}.jpg`;
    await page.screenshot({ path: join(folder, file), type: 'jpeg', quality: 72 });
    captions.push(`## ${captions.length + 1}. ${caption}\n\n![${caption}](${file})\n`);
    process.stdout.write(`first-run ${file}\n`);
  };
  const open = async (view: string) => {
    await page.getByRole('navigation').getByRole('link', { name: view, exact: true }).click();
  };

  await page.getByRole('heading', { name: 'First steps' }).waitFor();
  await take('home', 'The console opens with what to try first, and programs that work as you copy them.');

  await open('Chat');
  const message = page.getByRole('textbox', { name: /message/i });
  await message.fill('What is the capital of France?');
  await message.press('Enter');
  await page.getByRole('button', { name: 'Regenerate' }).first().waitFor();
  await take('chat', 'The first answer, with its tokens and its speed.');

  await page.goto(`${url}/console/lab/kernels?op=rms_norm`);
  await page.getByRole('button', { name: 'Check and register' }).click();
  await page
    .getByRole('heading', { name: /^Gate: \S+ accepted$/ })
    .evaluate((heading) => heading.scrollIntoView({ block: 'start' }));
  await take(
    'kernel',
    'The stub of an op is a correct kernel: the gate accepts it and shows its errors beside their limits.',
  );

  await page.getByRole('button', { name: /^Bind \S+ to layers.*attn.norm/ }).click();
  await page
    .getByText(/ now\b/)
    .first()
    .waitFor();
  await page.getByRole('tab', { name: 'Bench' }).click();
  await page.getByText('Bench options').click();
  for (const [name, value] of [
    ['Rounds', '20'],
    ['Contexts', '32'],
  ] as const)
    await page.getByLabel(name, { exact: true }).fill(value);
  await page.getByRole('button', { name: 'Run the bench' }).click();
  await page
    .getByRole('heading', { name: /^Bench of / })
    .evaluate((heading) => heading.scrollIntoView({ block: 'start' }));
  await page.getByRole('table', { name: 'Tokens per second and ratios' }).waitFor();
  await take(
    'bench',
    'It runs in the live model. A bench compares it with the built-in kernel and says what it can tell.',
  );

  // The command line and the page have the same routes; an agent with a folder is quicker to write as JSON.
  await fetch(`${url}/agent/v1/agents`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      name: 'writer',
      instructions: 'You are a helpful assistant.',
      sampling: { temperature: 0 },
      tool_choice: { name: 'fs_write' },
      grants: { tools: ['fs_write'], write: [work] },
    }),
  });
  await open('Tasks');
  await page.getByLabel('Agent', { exact: true }).selectOption('writer');
  await page.getByLabel('Prompt').fill('Save "port: 80" in notes/list.md.');
  await page.getByLabel('Working folder').fill(join(work, '..'));
  await page.getByRole('button', { name: 'Start the task' }).click();
  const review = page.getByRole('link', { name: /^Review p\d+/ });
  await review.waitFor();
  await take('task', 'An agent of the embedded model proposes a file. Nothing is written yet.');

  await review.click();
  await page.getByRole('region', { name: /^Diff of p\d+$/ }).waitFor();
  await take('pending', 'The change waits for a person, with its diff.');
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByText('The change was applied.').waitFor();
  await take('approved', 'Approved: exactly this diff was written.');

  await open('Observe');
  await signIn(page, readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim());
  await page.getByRole('table', { name: 'Requests', exact: true }).waitFor();
  await take(
    'observe',
    'What the host has served: requests, tokens, latency. This view needs the token once.',
  );
  await page.getByRole('table', { name: 'Requests', exact: true }).getByRole('link').first().click();
  await page.getByRole('heading', { level: 1 }).waitFor();
  await take('trace', 'One request: where its time went.');

  await open('Models');
  await take('models', 'The models of this host, what fits its memory, and where to get another one.');
  await homeOf(page, url);
  await take('home-again', 'Home, ten minutes later: three steps have ticked themselves.');

  writeFileSync(
    join(folder, 'README.md'),
    `# The first ten minutes\n\nTaken by \`npm run console:screens -- first-run\`: a host with an empty data directory and the embedded model.\n\n${captions.join('\n')}`,
  );
  await close();
  await host.end();
}

async function homeOf(page: Page, url: string): Promise<void> {
  await page.goto(`${url}/console`);
  await page.getByRole('heading', { name: 'First steps' }).waitFor();
}
