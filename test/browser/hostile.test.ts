/** Answers that are not what the console expects, and texts of others that would be more than texts. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Page } from 'playwright-core';
import { noBrowser } from '../support/browser.ts';
import { type Console, openConsole } from '../support/console.ts';
import { everyNth } from '../support/tier.ts';

const markup = `<img src=x onerror="document.title='struck'">\u202Egnp.${'W'.repeat(300)}`;

/** Changes every text and leaves all else as it is. */
const withTexts = (value: unknown, text: (old: string) => string): unknown => {
  if (typeof value === 'string') return text(value);
  if (Array.isArray(value)) return value.map((element) => withTexts(element, text));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withTexts(member, text)]));
};

/** Scripted answers of routes. Stops with the page. */
const rewriting = (page: Page, rewrite: (body: unknown) => unknown): Promise<unknown> =>
  page.route(
    // The stream of changes has no end.
    ({ pathname }) => /^\/(agent|host|lab|observe|recorder|v1)\/(?!v1\/events$)/.test(pathname),
    async (route) => {
      const response = await route.fetch();
      const body = rewrite(await response.json().catch(() => ({})));
      await route.fulfill({ status: response.status(), json: body });
    },
  );

describe.skipIf(noBrowser !== undefined)(`the console with hostile responses ${noBrowser ?? ''}`, () => {
  let host: Console;
  beforeAll(async () => {
    host = await openConsole();
  });
  afterAll(() => host?.end());

  it('reports an answer that it cannot show, and recovers on the next one', async () => {
    const { page, close } = await host.view('lab/bench');
    await page.getByRole('heading', { name: 'Lab', level: 1 }).waitFor();
    await rewriting(page, () => ({}));
    await page.reload();
    await page.getByRole('heading', { name: 'Something went wrong' }).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'Lab', level: 1 }).waitFor();
    await close();
  });

  it('reports a response that is not from the host', async () => {
    const { page, close } = await host.view('workflows');
    await page.getByRole('heading', { name: 'Workflows', level: 1 }).waitFor();
    await page.route('**/agent/v1/**', (route) =>
      route.fulfill({ contentType: 'text/html', body: '<html>log in to the network</html>' }),
    );
    await page.reload();
    await page
      .getByText(/not a valid answer of this host/)
      .first()
      .waitFor();
    await close();
  });

  const paths = ['', 'lab', 'lab/kernels', 'tasks', 'tasks/tools', 'workflows', 'sessions', 'pending'];
  it.each(everyNth(paths, 3))('shows foreign text as plain text, without overflow: /%s', async (path) => {
    const { page, idle, close, faults } = await host.view(path);
    await rewriting(page, (body) => withTexts(body, (old) => `${old.slice(0, 30)}${markup}`));
    await page.reload();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await idle();
    expect(await page.title()).not.toBe('struck');
    await expect.poll(() => page.locator('img[src=x]').count()).toBe(0);
    expect(faults().filter((fault) => !/status of 4\d\d/.test(fault))).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
    await close();
  });

  it('shows hidden characters of a change that a person approves', async () => {
    const { page, close } = await host.view('pending');
    const change = {
      id: 'p1',
      state: 'staged',
      kind: 'file_write',
      agent: 'default',
      tool: 'write_file',
      summary: 'write \u202Etxt.exe',
      intent: 'to \u200Bhelp',
      path: 'a\u2066b',
      diff: '--- a\n+++ b\n@@ -1 +1 @@\n-a\n+if (admin\u202E) {',
      created_at: new Date().toISOString(),
      expires_at: new Date(Date.now() + 60_000).toISOString(),
    };
    await page.route('**/agent/v1/pending', (route) => route.fulfill({ json: [change] }));
    await page.route('**/agent/v1/pending/p1', (route) => route.fulfill({ json: change }));
    await page.goto(`${host.url}/console/pending/p1`);
    for (const shown of ['+if (admin<U+202E>) {', 'write <U+202E>txt.exe', 'to <U+200B>help', 'a<U+2066>b'])
      await page.getByText(shown, { exact: true }).waitFor();
    await close();
  });
});
