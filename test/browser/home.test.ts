/** Home and models: programs of the page work, steps tick, counts of what waits, and the life of a model. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults } from '../support/accessibility.ts';
import { noBrowser } from '../support/browser.ts';
import { type Console, openConsole } from '../support/console.ts';
import { type FakeHub, fakeHub } from '../support/fake-hub.ts';
import { freshDataDir, repository } from '../support/host.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';

const run = promisify(execFile);
const toy = join(repository, 'test/fixtures/architectures/qwen3/model.gguf');
const reranker = join(repository, 'test/fixtures/rerankers/bert-reranker/model.gguf');

/** A run that waits at a gate for input before its first step. */
const gated = `[ensemble]
name = "gated"
description = "waits"

[agents.writer]
instructions = "You write."
model = "scripted"

[[steps]]
id = "only"
agent = "writer"
prompt = "DRAFT {{gate.remarks}}"
[steps.gate]
kind = "input"
message = "Say something."
[steps.gate.schema]
type = "object"
required = ["remarks"]
properties = { remarks = { type = "string" } }
`;

describe.skipIf(noBrowser !== undefined)(`home and models in a browser ${noBrowser ?? ''}`, () => {
  const folder = join(freshDataDir(), 'work');
  let gateway: Awaited<ReturnType<typeof scriptedOpenAi>>;
  let hub: FakeHub;
  let host: Console;
  beforeAll(async () => {
    mkdirSync(folder);
    gateway = await scriptedOpenAi(({ body: { messages } }) =>
      messages.some(({ role }) => role === 'tool')
        ? { text: 'done' }
        : { calls: [{ name: 'fs_write', arguments: { path: 'a.txt', content: 'a', intent: 'to write' } }] },
    );
    hub = await fakeHub('owner/tiny-GGUF', [{ path: 'pulled-Q8_0.gguf', content: readFileSync(toy) }]);
    const dataDir = freshDataDir();
    mkdirSync(join(dataDir, 'models'));
    cpSync(toy, join(dataDir, 'models/toy.gguf'));
    cpSync(reranker, join(dataDir, 'models/ranker.gguf'));
    writeFileSync(join(dataDir, 'models/broken.gguf'), 'GGUF');
    const config = join(dataDir, 'host.toml');
    writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
    host = await openConsole({
      dataDir,
      args: ['--config', config, '--resident', '2', '--enable-workflow', 'gated'],
      env: { HF_ENDPOINT: hub.url },
    });
  });
  afterAll(async () => {
    await host?.end();
    await hub?.close();
    await gateway?.close();
  });

  // The tests follow one another: each needs what the ones before it did to the host.

  /** The text that a copy button puts into the clipboard. */
  const copied = async (page: Page, name: string): Promise<string> => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const read = () => page.evaluate(() => navigator.clipboard.readText());
    const before = await read();
    await page.getByRole('button', { name, exact: true }).click();
    await expect.poll(read).not.toBe(before);
    return await read();
  };
  it('shows programs that work as they are copied, and ticks what the host has seen', async () => {
    const { page, faults, close } = await host.view('');
    const steps = page.getByRole('region', { name: 'First steps' });
    const doneSteps = () => steps.getByRole('listitem').filter({ hasText: '(done)' }).allTextContents();
    await steps.getByText('0 of 4').waitFor();
    expect(await copied(page, 'Copy the base URL')).toBe(`${host.url}/v1`);
    await page.getByText('Not required: only this machine reaches the host.').waitFor();

    const curl = await copied(page, 'Copy request with curl');
    const { stdout } = await run('bash', ['-c', curl]);
    expect(JSON.parse(stdout)).toMatchObject({ choices: [{ message: { content: expect.any(String) } }] });
    await steps.getByText('1 of 4').waitFor();
    expect(await doneSteps()).toEqual([expect.stringContaining('Get an answer')]);

    await page.getByRole('tab', { name: 'TypeScript' }).click();
    const program = await copied(page, 'Copy program in TypeScript');
    const answer = await run(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: repository,
    });
    expect(answer.stdout.trim()).not.toBe('');
    await page.getByRole('tab', { name: 'Python' }).click();
    expect(await copied(page, 'Copy program in Python')).toContain(`base_url="${host.url}/v1"`);
    await page.getByRole('tab', { name: 'Your existing SDK' }).click();
    expect(await copied(page, 'Copy environment variables')).toContain(`OPENAI_BASE_URL=${host.url}/v1`);

    const { source } = await host.send<{ source: string }>('GET', '/lab/v1/ops/rms_norm/stub?target=plain');
    const kernel = { name: 'mine', op: 'rms_norm', source, dispatch: { x: 'tokens' }, overrides: { WG: 64 } };
    await host.send('POST', '/lab/v1/kernels', kernel);
    await steps.getByText('2 of 4').waitFor();
    expect(await page.getByText('Model digest').isVisible()).toBe(false);
    await page.getByText('Identity and adapter').click();
    expect(await copied(page, "Copy the model's digest")).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(faults()).toEqual([]);
    await close();
  });

  it('counts what waits for a person, also in the navigation', async () => {
    await host.send('POST', '/agent/v1/agents', {
      name: 'writer',
      instructions: 'You write.',
      model: 'scripted',
      grants: { tools: ['fs_write'], read: [folder], write: [folder] },
    });
    const task = { agent: 'writer', prompt: 'WRITE', cwd: folder };
    await (
      await fetch(`${host.url}/agent/v1/tasks`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(task),
      })
    ).text();
    await host.send('POST', '/agent/v1/workflows', gated);
    await (
      await fetch(`${host.url}/agent/v1/workflows/gated/runs`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      })
    ).text();
    const { page, faults, close } = await host.view('');
    const waiting = page.getByRole('region', { name: 'Waiting for you' });
    await waiting.getByRole('link', { name: '1 pending change', exact: true }).waitFor();
    await waiting.getByRole('link', { name: '1 run at a gate', exact: true }).waitFor();
    await page.getByRole('region', { name: 'First steps' }).getByText('3 of 4').waitFor();
    const views = page.getByRole('navigation', { name: 'Views' });
    await views.getByRole('link', { name: /^Pending changes 1 waiting$/ }).waitFor();
    await views.getByRole('link', { name: /^Runs 1 waiting$/ }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(faults()).toEqual([]);
    await close();
  });

  it('copies answers, receipts and code, also where the browser refuses its clipboard', async () => {
    const { page, faults, close } = await host.view('tasks/t1');
    expect(await copied(page, 'Copy the answer')).toBe('done');
    expect(await copied(page, "Copy the task's id")).toBe('t1');
    await page.getByRole('link', { name: 'Session and signed receipt' }).click();
    const receipt = JSON.parse(await copied(page, 'Copy the receipt')) as { digest: string };
    expect(receipt).toMatchObject({ id: 't1', signature: { alg: 'ed25519' } });
    await page.evaluate(() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error('refused'));
    });
    expect(await copied(page, 'Copy the digest')).toBe(receipt.digest);
    await page.goto(`${host.url}/console/workflows/gated`);
    expect(await copied(page, 'Copy source of the workflow, TOML')).toBe(gated);
    expect(faults()).toEqual([]);
    await close();
  });

  it('goes anywhere from the command palette with the keyboard', async () => {
    const { page, faults, close } = await host.view('', { dark: true, width: 360 });
    await page.getByRole('heading', { level: 1 }).waitFor();
    const dialog = page.getByRole('dialog', { name: 'Go to' });
    const selected = dialog.getByRole('option', { selected: true });
    const path = () => page.evaluate(() => location.pathname + location.search);
    const search = async (text: string) => {
      // The page may be drawn before it listens to keys.
      const press = async () => {
        if ((await dialog.count()) === 0) await page.keyboard.press('Control+k');
        return await dialog.count();
      };
      await expect.poll(press).toBe(1);
      await dialog.getByRole('combobox').waitFor();
      await page.keyboard.type(text);
    };
    const goes = async (text: string, option: RegExp, to: string | RegExp) => {
      await search(text);
      await expect.poll(() => selected.textContent()).toMatch(option);
      await page.keyboard.press('Enter');
      await expect.poll(path).toMatch(to);
      await expect.poll(() => dialog.count()).toBe(0);
    };
    await goes('bench', /^Lab: bench$/, '/console/lab/bench');
    await goes('toy', /^toy/, '/console/models?name=toy');
    expect(await page.getByRole('row', { selected: true }).textContent()).toMatch(/^toy/);
    await goes('mine', /^minerms_norm, accepted$/, '/console/lab/kernels/mine');
    await goes('gated', /^gatedwaiting, r\d+$/, /^\/console\/runs\/r\d+$/);

    await search('');
    await expect.poll(() => selected.textContent()).toBe('Home');
    await page.keyboard.press('ArrowDown');
    await expect.poll(() => selected.textContent()).toBe('Chat');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    await expect.poll(() => selected.textContent()).toBe('Browser demo');
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      await expect.poll(() => page.locator('html').getAttribute('data-theme')).toBe(colorScheme);
      expect(await accessibilityFaults(page)).toEqual([]);
    }
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(
      0,
    );
    await page.keyboard.type('no such thing');
    await dialog.getByText('No results.').waitFor();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Escape');
    await expect.poll(() => dialog.count()).toBe(0);
    expect(faults()).toEqual([]);
    await goes('api ref', /^API reference$/, /^\/docs/);
    await close();
  });

  it('pulls a model, loads it beside the resident one, closes it and removes it', async () => {
    const { page, faults, close } = await host.view('models');
    const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name} `) });
    await row('lathe-tiny').getByText('resident').waitFor();
    await row('broken').getByText('cannot be used').waitFor();
    await row('toy').getByText('fits', { exact: true }).waitFor();
    await row('ranker').getByText('reranking', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Load ranker' }).click();
    await row('ranker').getByText('takes').waitFor();
    await page.getByRole('button', { name: 'Close ranker' }).click();
    await page.getByRole('button', { name: 'Load ranker' }).waitFor();
    expect(await row('broken').getByRole('button', { name: 'Load broken' }).count()).toBe(0);
    expect(
      await row('lathe-tiny')
        .getByRole('button', { name: /^(Load|Remove)/ })
        .count(),
    ).toBe(0);

    await page.getByLabel('Repository').fill('owner/none-GGUF');
    await page.getByRole('button', { name: 'Pull', exact: true }).click();
    const downloads = page.getByRole('list', { name: 'Downloads' });
    await downloads.getByRole('alert').waitFor();
    await page.getByRole('button', { name: 'Hide the download of hf.co/owner/none-GGUF' }).click();
    await page.getByLabel('Repository').fill('owner/tiny-GGUF');
    await page.getByRole('button', { name: 'Pull', exact: true }).click();
    await downloads.getByText('stored', { exact: true }).waitFor();
    const name = 'owner--tiny-GGUF/pulled-Q8_0';
    const pulled = row(name);
    await pulled.waitFor();

    await page.getByRole('button', { name: `Load ${name}` }).click();
    await pulled.getByText('takes').waitFor();
    const roles = page.getByRole('region', { name: 'Roles' });
    await roles.getByText(name).waitFor();
    expect(await page.getByRole('button', { name: `Remove ${name}` }).count()).toBe(0);
    await page.getByRole('link', { name: 'lathe, home' }).click();
    await page.getByRole('region', { name: 'First steps' }).getByText('4 of 4').waitFor();
    await page.getByRole('link', { name: 'Models', exact: true }).click();

    await page.getByRole('button', { name: `Close ${name}` }).click();
    await page.getByRole('button', { name: `Remove ${name}` }).click();
    const dialog = page.getByRole('dialog', { name: `Remove ${name}?` });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await pulled.waitFor();
    await page.getByRole('button', { name: `Remove ${name}` }).click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await pulled.waitFor({ state: 'detached' });

    await page.getByText('Show the kernels').click();
    await page.getByRole('table', { name: 'Kernels by slot' }).getByText('output.norm').waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(faults().filter((fault) => !/status of 40\d|status of 50\d/.test(fault))).toEqual([]);
    await close();
  });
});
