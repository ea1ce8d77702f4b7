import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { noBrowser, TestBrowser } from '../support/browser.ts';
import { openConsole } from '../support/console.ts';
import { writeDemoSite } from '../support/demo-site.ts';
import { openStaticSite, type StaticSite } from '../support/static-site.ts';

const saved = (page: Page) =>
  page.getByText('This page is saved in this browser and works offline.').waitFor();
const ready = (page: Page) => page.getByText('Ready', { exact: true }).waitFor();

/** Sends a message and waits for its answer. */
async function answerOf(page: Page, message: string): Promise<string> {
  const before = await page.getByRole('article', { name: 'Answer of lathe' }).count();
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill(message);
  await page.getByRole('button', { name: 'Send' }).click();
  const answer = page.getByRole('article', { name: 'Answer of lathe' }).nth(before);
  await answer.getByText(/Decode: /).waitFor();
  return (await answer.locator('p').first().textContent()) ?? '';
}

/** Paths that the demo's cache has, by the name of the cache. */
const cachedPaths = (page: Page) =>
  page.evaluate(async () => {
    const names = (await caches.keys()).filter((name) => name.startsWith('lathe-demo '));
    const all = names.map(async (name) => {
      const requests = await (await caches.open(name)).keys();
      return [name, requests.map(({ url }) => new URL(url).pathname)] as const;
    });
    return Object.fromEntries(await Promise.all(all));
  });

describe.skipIf(noBrowser !== undefined)(`the demo without a network ${noBrowser ?? ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-offline-'));
  const built = join(folder, 'built');
  let browser: TestBrowser;
  let site: StaticSite | undefined;
  beforeAll(async () => {
    await writeDemoSite(built);
    browser = await TestBrowser.open();
  });
  afterEach(async () => {
    await site?.close();
    site = undefined;
  });
  afterAll(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('opens, answers and shows the earlier messages when the server has stopped, below a path', async () => {
    site = await openStaticSite(built, { below: '/some/where/' });
    const { page, faults, close } = await browser.page({ url: site.url });
    await ready(page);
    await saved(page);
    const sum = await answerOf(page, 'What is 23 + 45?');
    expect(await page.evaluate(async () => (await navigator.serviceWorker.ready).scope)).toBe(site.url);
    expect(faults()).toEqual([]);

    await page.context().setOffline(true);
    await site.close();
    site = undefined;
    await page.reload();
    await ready(page);
    await page.getByText(sum, { exact: true }).waitFor();
    expect(await answerOf(page, 'What is 23 + 45?')).not.toBe('');
    // The update check of the service worker fails without a network.
    expect(faults().filter((fault) => !fault.includes('service-worker.js'))).toEqual([]);
    await close();
  });

  it('replaces all files by those of a new version, and keeps the old ones while a page of it is open', async () => {
    const served = join(folder, 'served');
    cpSync(built, served, { recursive: true });
    site = await openStaticSite(served);
    const { page, close } = await browser.page({ url: site.url });
    await saved(page);
    const before = await cachedPaths(page);
    expect(Object.keys(before)).toHaveLength(1);
    await page.reload();
    await ready(page);

    writeNextVersion(served);
    const second = await page.context().newPage();
    await second.goto(site.url);
    await ready(second);
    await second.waitForFunction(async () => (await navigator.serviceWorker.ready).waiting !== null);
    // Both pages are of the first version, whose files are still there.
    expect(await second.title()).toBe('lathe in the browser');
    expect(Object.keys(await cachedPaths(page))).toHaveLength(2);
    await second.close();

    // The browser may count the closed page for a moment.
    await expect
      .poll(async () => {
        await page.reload();
        return await page.title();
      })
      .toBe('lathe, next version');
    await ready(page);
    const after = await cachedPaths(page);
    expect(Object.keys(after)).toHaveLength(1);
    expect(Object.keys(after)).not.toEqual(Object.keys(before));
    await page.context().setOffline(true);
    await page.reload();
    await ready(page);
    expect(await page.title()).toBe('lathe, next version');
    await close();
  });

  it('stores nothing of a version that the server has only in part', async () => {
    const served = join(folder, 'partial');
    cpSync(built, served, { recursive: true });
    const model = join(served, 'models/lathe-tiny-q8_0.gguf');
    const bytes = readFileSync(model);
    // The same model with another name of it: a file of another version.
    writeFileSync(model, Buffer.concat([bytes, Buffer.alloc(32)]));
    site = await openStaticSite(served);
    const { page, close } = await browser.page({ url: site.url });
    await ready(page);
    await page.waitForFunction(async () => {
      const [registration] = await navigator.serviceWorker.getRegistrations();
      return registration === undefined;
    });
    await expect.poll(() => cachedPaths(page)).toEqual({});
    await expect
      .poll(() => page.getByText('This page is saved in this browser and works offline.').count())
      .toBe(0);
    await close();
  });
});

/** A build of another version: another page, with the digest of it in the service worker. */
function writeNextVersion(folder: string): void {
  const page = join(folder, 'index.html');
  const html = readFileSync(page, 'utf8').replace(
    '<title>lathe in the browser',
    '<title>lathe, next version',
  );
  writeFileSync(page, html);
  const script = join(folder, 'service-worker.js');
  const digest = createHash('sha256').update(html).digest('base64');
  const code = readFileSync(script, 'utf8')
    .replace(/"version":"\w+"/, '"version":"next"')
    .replace(/"\.\/":"[^"]+"/, `"./":"sha256-${digest}"`);
  writeFileSync(script, code);
}

describe.skipIf(noBrowser !== undefined)(`the demo of a host that has stopped ${noBrowser ?? ''}`, () => {
  it('links to the console while the host runs, and answers without it', async () => {
    const host = await openConsole({ script: { says: ['x'] } });
    const { page, faults, close } = await host.view('../demo/');
    await ready(page);
    await saved(page);
    const link = page.getByRole('link', { name: 'Console' });
    expect(await link.evaluate((one) => (one as HTMLAnchorElement).href)).toBe(`${host.url}/console`);
    const [registration] = await page.evaluate(async () =>
      (await navigator.serviceWorker.getRegistrations()).map((one) => one.scope),
    );
    expect(registration, 'the service worker does not answer for the console').toBe(`${host.url}/demo/`);
    expect(faults()).toEqual([]);
    await page.context().setOffline(true);
    await page.reload();
    await ready(page);
    expect(await answerOf(page, 'What is 23 + 45?')).not.toBe('');
    await close();
    await host.end();
  });
});
