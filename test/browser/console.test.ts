import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { documentFingerprint } from '../../web/console-document.ts';
import { layoutFaults } from '../support/accessibility.ts';
import { noBrowser, TestBrowser } from '../support/browser.ts';
import { buildHost, freshDataDir, type HostProcess, repository, startHost } from '../support/host.ts';
import { consoleViews, isProtectedView } from '../support/console.ts';
import { everyNth } from '../support/tier.ts';

describe.skipIf(noBrowser !== undefined)(`the console in a browser ${noBrowser ?? ''}`, () => {
  let browser: TestBrowser;
  let host: HostProcess;
  let url: string;
  let token: string;

  beforeAll(async () => {
    buildHost();
    browser = await TestBrowser.open();
    const folder = freshDataDir();
    mkdirSync(join(folder, 'models'));
    const toy = join(repository, 'test/fixtures/architectures/qwen3/model.gguf');
    cpSync(toy, join(folder, 'models/toy.gguf'));
    host = startHost(['--gpu', '--resident', '2', '--port', '0', '--data-dir', folder]);
    url = await host.url();
    const body = JSON.stringify({ model: 'toy' });
    expect((await fetch(`${url}/api/generate`, { method: 'POST', body })).status).toBe(200);
    token = readFileSync(join(folder, 'bearer.token'), 'utf8').trim();
  });
  afterAll(async () => {
    await browser?.close();
    await host?.end();
  });

  /** Opens a view, signs in if it asks for the token, and waits until it is idle. */
  async function opened(path: string, options: { width?: number; dark?: boolean } = {}) {
    const watched = await browser.page({ url: `${url}/console${path === '' ? '' : `/${path}`}`, ...options });
    const { page } = watched;
    await page.getByRole('heading', { level: 1 }).waitFor();
    const dialog = page.getByRole('dialog', { name: /bearer token/ });
    const asks = isProtectedView(path);
    if (asks) {
      await dialog.getByLabel('Bearer token').fill(token);
      await dialog.getByRole('button', { name: 'Sign in' }).click();
    }
    await watched.idle();
    // Chromium logs the 401 that triggers the sign-in; it is not a fault.
    const faults = () => watched.faults().filter((fault) => !(asks && /status of 401/.test(fault)));
    return { ...watched, faults };
  }

  describe.each([
    [1440, false],
    [360, true],
  ])('%i px wide, dark: %s', (width, dark) => {
    it.each(everyNth(consoleViews, 5))(
      '/console/%s has no serious accessibility violation, no console error and no horizontal overflow',
      async (path) => {
        const { page, faults, close } = await opened(path, { width, dark });
        expect(await layoutFaults(page)).toEqual([]);
        expect(faults()).toEqual([]);
        await close();
      },
    );
  });

  it('shows the resident model and those that are loaded beside it', async () => {
    const { page, close } = await opened('');
    const table = page.getByRole('region', { name: 'Loaded models' });
    await table.getByRole('cell', { name: 'lathe-tiny' }).waitFor();
    await table.getByRole('cell', { name: 'tiny-qwen3' }).waitFor();
    expect(await table.getByRole('cell', { name: /MiB/ }).count()).toBe(2);
    await close();
  });

  it('compares the answers of two models to the same message', async () => {
    const { page, faults, close } = await opened('chat?max_tokens=2', { width: 1440 });
    await page.getByLabel('Message', { exact: true }).fill('Hello');
    await page.getByLabel('Message', { exact: true }).press('Enter');
    const answer = page.getByRole('article', { name: 'Answer' });
    await answer.getByText('truncated: token limit reached').waitFor();
    await page.getByLabel('Model', { exact: true }).selectOption('toy');
    await answer.getByRole('button', { name: 'Regenerate' }).click();
    await answer.getByRole('button', { name: 'Compare' }).click();
    for (const version of [
      /^Version 1: lathe-tiny, max tokens 2$/,
      /^Version 2: (toy|tiny-qwen3), max tokens 2$/,
    ])
      await answer.getByRole('region', { name: version }).getByText('2 completion tokens').waitFor();
    expect(faults()).toEqual([]);
    await close();
  });

  it('transfers less than 300 kB for its first view', async () => {
    const { page, idle, close } = await browser.page({ url: `${url}/docs` });
    let bytes = 0;
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    session.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    await page.goto(`${url}/console`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await idle();
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(300_000);
    await close();
  });

  it('uses the current API of the host (npm run console:types regenerates its types)', async () => {
    const document = (await (await fetch(`${url}/openapi.json`)).json()) as Record<string, unknown>;
    const types = readFileSync(join(repository, 'web/api/schema.d.ts'), 'utf8');
    expect(types.split('\n', 1)[0]).toContain(documentFingerprint(document));
  });

  it('asks for the token once a session of the browser, and does not keep it', async () => {
    const folder = freshDataDir();
    const open = startHost(['--gpu', '--host', '0.0.0.0', '--port', '0', '--data-dir', folder]);
    onTestFinished(() => open.end());
    const at = (await open.url()).replace('0.0.0.0', '127.0.0.1');
    const secret = readFileSync(join(folder, 'bearer.token'), 'utf8').trim();
    const { page, faults, idle, close } = await browser.page({ url: `${at}/console/lab?tint=kernel` });
    await page.getByText(join(folder, 'bearer.token')).waitFor();
    await page.getByLabel('Bearer token').fill('wrong');
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByText('The token is wrong.').waitFor();
    await page.getByLabel('Bearer token').fill(secret);
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByRole('heading', { level: 1, name: /lab/i }).waitFor();
    expect(page.url()).toMatch(/\/console\/lab\?/);
    await idle();
    expect(await page.getByRole('dialog').count(), 'the token is not asked for twice').toBe(0);
    await page.getByRole('link', { name: 'lathe, home' }).click();
    await page.getByText('Required: this host is reachable from other machines.').waitFor();
    const program = page.getByRole('region', { name: 'Request with curl' });
    expect(await program.textContent()).toContain('-H "Authorization: Bearer $LATHE_TOKEN"');
    await page.goBack();
    expect(faults().filter((fault) => !/status of 401/.test(fault))).toEqual([]);
    const kept = await page.evaluate(
      () => [localStorage, sessionStorage].map((storage) => JSON.stringify(storage)).join() + document.cookie,
    );
    expect(kept).not.toContain(secret);
    await page.reload();
    await page.getByRole('heading', { level: 1, name: /lab/i }).waitFor();
    await page.getByRole('link', { name: 'Recorder' }).click();
    await page.getByText('Rack').first().waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    // A second page of the same browser is signed in, too; so is the demo.
    const second = await page.context().newPage();
    await second.goto(`${at}/demo/`);
    await second.getByRole('heading', { level: 1 }).waitFor();
    expect(await second.getByLabel('Bearer token').count()).toBe(0);
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict', secure: false, expires: -1 }]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in with the bearer token' }).waitFor();
    expect(await page.context().cookies()).toEqual([]);
    // A copy of the cookie opens nothing.
    await page.context().addCookies(cookies);
    await second.reload();
    await second.getByLabel('Bearer token').waitFor();
    await close();
  });

  it('works with the keyboard: skip link past the navigation, and a link to each view', async () => {
    const { page, close } = await opened('');
    await page.keyboard.press('Tab');
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to content');
    await page.keyboard.press('Enter');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('main');
    await page.getByRole('link', { name: 'Workflows' }).press('Enter');
    await page.getByRole('heading', { level: 1, name: /workflows/i }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/console/workflows');
    await close();
  });

  it('reports an unknown view', async () => {
    const { page, close } = await browser.page({ url: `${url}/console/nowhere` });
    await page.getByText('There is no view /console/nowhere.').waitFor();
    await close();
  });
});
