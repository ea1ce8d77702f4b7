import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults } from '../support/accessibility.ts';
import { noBrowser, TestBrowser, type WatchedPage } from '../support/browser.ts';
import { consoleViews, isProtectedView, signIn } from '../support/console.ts';
import { buildHost, freshDataDir, type HostProcess, startScriptedHost } from '../support/host.ts';
import { freePort } from '../support/local-server.ts';
import { type OpenAiScript, scriptedOpenAi } from '../support/scripted-openai.ts';

// Pages show what happens on the host without being asked to, and whether there is a host at all.

const model: OpenAiScript = ({ body: { messages } }) => {
  const prompt = messages.findLast(({ role }) => role === 'user')?.content ?? '';
  const isFirst = !messages.some(({ role }) => role === 'tool');
  const path = /WRITE (\S+)/.exec(prompt)?.[1];
  return path !== undefined && isFirst
    ? { calls: [{ name: 'fs_write', arguments: { path, content: 'x', intent: 'to test' } }] }
    : { text: 'done' };
};

describe.skipIf(noBrowser !== undefined)(`a live console ${noBrowser ?? ''}`, () => {
  const dataDir = freshDataDir();
  const folder = mkdtempSync(join(tmpdir(), 'lathe-live-'));
  let gateway: Awaited<ReturnType<typeof scriptedOpenAi>>;
  let browser: TestBrowser;
  let host: HostProcess;
  let url = '';
  let args: string[] = [];
  const start = async () => {
    host = startScriptedHost(args, { lab: true });
    await host.url();
  };
  const pages: WatchedPage[] = [];
  const view = async (path: string) => {
    const watched = await browser.page({ url: `${url}/console${path === '' ? '' : `/${path}`}` });
    pages.push(watched);
    await watched.page.getByRole('heading', { level: 1 }).waitFor();
    return watched;
  };
  const send = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    expect([path, response.status < 300, response.status < 300 ? '' : text]).toEqual([path, true, '']);
    return text;
  };
  /** Starts a task that asks to write a file. @returns the ids of the task and the change */
  const stage = async (name: string) => {
    const lines = await send('POST', '/agent/v1/tasks', {
      agent: 'writer',
      prompt: `WRITE ${join(folder, name)}`,
    });
    const [, task = ''] = /"task_id":"(t\d+)"/.exec(lines) ?? [];
    const [, change = ''] = /"pending_id":"(p\d+)"/.exec(lines) ?? [];
    expect([task, change]).toEqual([expect.stringMatching(/^t\d+$/), expect.stringMatching(/^p\d+$/)]);
    return { task, change };
  };
  const banner = (page: Page) => page.getByRole('alert').filter({ hasText: 'The host does not answer.' });

  beforeAll(async () => {
    buildHost();
    gateway = await scriptedOpenAi(model);
    const config = join(folder, 'host.toml');
    writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    args = ['--gpu', '--port', String(port), '--data-dir', dataDir, '--config', config];
    browser = await TestBrowser.open({ webgpu: false });
    await start();
    await send('POST', '/agent/v1/agents', {
      name: 'writer',
      instructions: 'You write.',
      model: 'scripted',
      grants: { tools: ['fs_write'], read: [folder], write: [folder] },
    });
  });
  afterEach(async () => {
    for (const { close } of pages.splice(0)) await close();
  });
  afterAll(async () => {
    await browser?.close();
    await host?.end();
    await gateway?.close();
  });

  it('shows what was decided by another page or by a program, on every page that shows it', async () => {
    const { change } = await stage('a.txt');
    const [list, detail, journal, home] = [
      await view('pending'),
      await view(`pending/${change}`),
      await view('pending/acts'),
      await view(''),
    ];
    await list.page.getByRole('link', { name: change }).first().waitFor();
    await home.page
      .getByText(/1 waiting/)
      .first()
      .waitFor();
    // Another page.
    await detail.page.getByRole('button', { name: /approve/i }).click();
    await list.page.getByText('No changes are pending.').waitFor();
    await home.page
      .getByText(/\d+ waiting/)
      .first()
      .waitFor({ state: 'detached' });
    // A program.
    const second = await stage('b.txt');
    await list.page.getByRole('link', { name: second.change }).first().waitFor();
    await send('POST', `/agent/v1/pending/${second.change}/discard`, {});
    await expect.poll(() => list.page.getByRole('link', { name: second.change }).count()).toBe(0);
    await journal.page.getByRole('cell', { name: second.change }).first().waitFor();
    const tasks = await view('tasks');
    const third = await stage('c.txt');
    await tasks.page.getByRole('link', { name: third.task, exact: true }).first().waitFor();
  });

  it('sends few requests while nothing happens', async () => {
    for (const path of consoleViews) {
      const watched = await browser.page({ url: `${url}/icon.svg` });
      pages.push(watched);
      const { page } = watched;
      await page.clock.install();
      await page.goto(`${url}/console/${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      if (isProtectedView(path)) await page.keyboard.press('Escape');
      await watched.idle();
      const sent: string[] = [];
      page.on('request', (request) => sent.push(new URL(request.url()).pathname));
      await page.clock.runFor(30_000);
      await watched.idle();
      expect([path, sent]).toEqual([path, expect.any(Array)]);
      // Sweeps of the host may touch rows; a page that polls sends more than ten.
      expect([path, sent.length <= 3 ? [] : sent]).toEqual([path, []]);
      await watched.close();
      pages.pop();
    }
  });

  it('says once that the host does not answer, claims no state, and recovers when it is back', async () => {
    const token = readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim();
    const opened: [string, WatchedPage][] = [];
    // The config of the scripted lab is not a whole one.
    for (const path of consoleViews.filter((one) => one !== 'lab/configs')) {
      const watched = await view(path);
      if (isProtectedView(path)) {
        await signIn(watched.page, token);
        await expect.poll(() => watched.page.getByRole('dialog').count()).toBe(0);
      }
      await watched.idle();
      opened.push([path, watched]);
    }
    const pageOf = (path: string) => {
      const found = opened.find(([one]) => one === path);
      if (!found) throw new Error(`no page of ${path}`);
      return found[1].page;
    };
    await pageOf('').getByText('ready', { exact: true }).waitFor();
    const message = pageOf('chat').getByRole('textbox', { name: /message/i });
    await message.fill('What I typed.');
    host.kill('SIGKILL');
    await host.exit;
    for (const [path, { page }] of opened) {
      await banner(page).waitFor();
      await expect
        .poll(async () => [path, await page.getByRole('alert').allTextContents()])
        .toEqual([path, [expect.stringMatching(/^The host does not answer\. Trying again… Since .*\d/)]]);
      const claims = page.getByText(
        /^(?:ready|live|loaded|resident|running|queued|waiting|paused|active|accepted|stale|quarantined)$/,
      );
      expect([path, await claims.filter({ visible: true }).allTextContents()]).toEqual([path, []]);
      expect([path, await accessibilityFaults(page)]).toEqual([path, []]);
    }
    await pageOf('').getByText('unknown', { exact: true }).first().waitFor();
    expect(await message.inputValue()).toBe('What I typed.');
    await start();
    const { task } = await stage('d.txt');
    for (const [path, { page }] of opened) {
      await banner(page).waitFor({ state: 'detached' });
      // Sessions end with the process of the host.
      if (isProtectedView(path)) {
        await signIn(page, token);
        await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
      }
      await expect
        .poll(async () => [path, await page.getByRole('alert').allTextContents()])
        .toEqual([path, []]);
      await expect.poll(async () => [path, await page.getByText(/^Loading /).count()]).toEqual([path, 0]);
    }
    await pageOf('').getByText('ready', { exact: true }).waitFor();
    await pageOf('tasks').getByRole('link', { name: task, exact: true }).first().waitFor();
    expect(await message.inputValue()).toBe('What I typed.');
  });
});
