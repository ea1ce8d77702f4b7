import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { layoutFaults } from '../support/accessibility.ts';
import { noBrowser, type PageOptions } from '../support/browser.ts';
import { type Console, openConsole } from '../support/console.ts';

const count = 5000;
/** More elements of a list than a window of it needs. */
const maxInDocument = 120;
const at = '2026-06-15T12:00:00.000Z';
const items = <Item>(itemOf: (n: number) => Item): Item[] =>
  Array.from({ length: count }, (_, index) => itemOf(index + 1));

const sessions = items((n) => ({
  id: `t${n}`,
  kind: 'task',
  title: `Prompt ${n}`,
  state: n % 3 === 0 ? 'failed' : 'completed',
  status: 'ended',
  started_at: at,
  ended_at: at,
  last_event:
    n % 7 === 0
      ? `a longer event, which needs more room than others and more than one line ${n}`
      : 'answered',
  cancellable: false,
  tokens: { prompt: n, completion: 1 },
  route: { engine: 'resident', model: 'toy' },
}));
const acts = items((n) => ({
  seq: n,
  at,
  verb: 'task.start',
  target: `t${n}`,
  outcome: 'applied',
  by: `operator ${n}`,
}));
const runs = items((n) => ({
  id: `r${n}`,
  workflow: `brief-${n}`,
  digest: 'sha256:0',
  state: 'completed',
  started_at: at,
  ended_at: at,
}));
const pending = items((n) => ({
  id: `p${n}`,
  agent: 'writer',
  summary: `Change ${n}`,
  risk: 'low',
  created_at: at,
}));
const entries = items((n) => ({ seq: n, at, by: 'operator', act: 'read', rack: 'agent', details: { n } }));

/** Lists that grow: the view, what the host answers in their place, and the text that one row alone has. */
const lists: readonly {
  readonly path: string;
  readonly route: string;
  readonly body: object;
  readonly name: string;
  readonly what: string;
  readonly only: string;
}[] = [
  {
    path: 'sessions',
    route: '**/agent/v1/sessions?*',
    body: { sessions },
    name: 'Sessions',
    what: 'sessions',
    only: 'Prompt 4321',
  },
  {
    path: 'tasks',
    route: '**/agent/v1/sessions?*',
    body: { sessions },
    name: 'Tasks, newest first',
    what: 'tasks',
    only: 'Prompt 4321',
  },
  {
    path: 'runs',
    route: '**/agent/v1/workflows/runs?*',
    body: runs,
    name: 'Runs',
    what: 'runs',
    only: 'brief-4321',
  },
  {
    path: 'pending/acts',
    route: '**/agent/v1/acts?*',
    body: { acts },
    name: 'Actions',
    what: 'actions',
    only: 'operator 4321',
  },
  {
    path: 'recorder/review',
    route: '**/recorder/v1/review?*',
    body: { data: { entries, next: null } },
    name: 'Review log, newest first',
    what: 'entries',
    only: '{"n":4321}',
  },
];

describe.skipIf(noBrowser !== undefined)(`lists of ${count} rows ${noBrowser ?? ''}`, () => {
  let host: Console;
  beforeAll(async () => {
    host = await openConsole({ script: {} });
  });
  afterAll(() => host?.end());

  type List = (typeof lists)[number];
  async function opened({ path, route, body, name }: List, options: Omit<PageOptions, 'url'> = {}) {
    const watched = await host.view('', options);
    const { page } = watched;
    // The scripted host has no lab, which the first page shows; the browser may report it late.
    const faults = () => watched.faults().filter((fault) => !fault.includes('/lab/v1/'));
    await page.route(route, (request) => request.fulfill({ json: body }));
    await page.goto(`${host.url}/console/${path}`);
    const table = page.getByRole('table', { name });
    await table.getByRole('row').nth(5).waitFor();
    return { ...watched, faults, table, box: page.getByRole('region', { name, exact: true }) };
  }
  const [feed] = lists as readonly [List];
  const scrollTo = (box: Locator, top: number) => box.evaluate((element, to) => element.scrollTo(0, to), top);
  const rowIndexes = (table: Locator) =>
    table
      .locator('tr[aria-rowindex]')
      .evaluateAll((rows) => rows.map((row) => Number(row.getAttribute('aria-rowindex'))));
  const focusedText = (page: Page) => page.evaluate(() => document.activeElement?.textContent);

  it.each(lists.map((list) => [list.path, list] as const))(
    '/console/%s has only the rows in view in the document, and finds one of all by its filter',
    async (_, list) => {
      const { page, table, box, faults, close } = await opened(list);
      expect(await table.getAttribute('aria-rowcount')).toBe(String(count + 1));
      expect(await table.locator('tr').count()).toBeLessThan(maxInDocument);
      await scrollTo(box, 1e9);
      await expect.poll(async () => (await rowIndexes(table)).at(-1)).toBe(count + 1);
      expect(await table.locator('tr').count()).toBeLessThan(maxInDocument);
      expect(await rowIndexes(table)).not.toContain(2);

      await page.getByRole('heading', { level: 1 }).click();
      await page.keyboard.press('/');
      const filter = page.getByRole('searchbox', { name: `Filter the ${list.what}` });
      expect(await filter.evaluate((element) => element === document.activeElement)).toBe(true);
      await page.keyboard.type(list.only);
      await page.getByText('1 of 5,000', { exact: true }).waitFor();
      await expect.poll(() => table.locator('tbody tr').count()).toBe(1);
      await table.getByText(list.only).first().waitFor();
      await filter.fill('no such text');
      await page.getByText('0 of 5,000', { exact: true }).waitFor();
      expect(faults()).toEqual([]);
      await close();
    },
  );

  it('keeps the focus of a row that leaves the window, and the Tab key goes on from it', async () => {
    const { page, table, box, close } = await opened(feed);
    await table.getByRole('link', { name: 'Prompt 3', exact: true }).focus();
    await scrollTo(box, 60_000);
    await expect.poll(async () => Math.max(...(await rowIndexes(table)))).toBeGreaterThan(1000);
    expect(await focusedText(page)).toBe('Prompt 3');
    expect((await rowIndexes(table)).filter((index) => index < 10)).toEqual([1, 3, 4, 5]);
    await page.keyboard.press('Tab');
    expect(await focusedText(page)).toBe('Prompt 4');
    await expect.poll(() => rowIndexes(table)).toContain(9);
    await page.keyboard.press('Tab');
    expect(await focusedText(page)).toBe('Prompt 5');
    await close();
  });

  it('scrolls by the keyboard, and its columns keep their widths', async () => {
    const { page, table, box, close } = await opened(feed);
    const widths = () =>
      table
        .getByRole('columnheader')
        .evaluateAll((heads) => heads.map((head) => Math.round(head.getBoundingClientRect().width)));
    const before = await widths();
    await box.focus();
    for (let press = 0; press < 4; press++) await page.keyboard.press('PageDown');
    await expect.poll(async () => Math.max(...(await rowIndexes(table)))).toBeGreaterThan(35);
    await page.keyboard.press('End');
    await expect.poll(async () => (await rowIndexes(table)).at(-1)).toBe(count + 1);
    expect(await widths()).toEqual(before);
    await close();
  });

  it('windows the list of pending changes too', async () => {
    const watched = await host.view('');
    const { page, close } = watched;
    await page.route('**/agent/v1/pending', (request) => request.fulfill({ json: pending }));
    await page.goto(`${host.url}/console/pending`);
    const list = page.getByRole('list', { name: 'Pending changes, oldest first' });
    await list.getByRole('listitem').nth(5).waitFor();
    expect(await list.getByRole('listitem').first().getAttribute('aria-setsize')).toBe(String(count));
    expect(await list.locator('li').count()).toBeLessThan(maxInDocument);
    await page.getByRole('searchbox', { name: 'Filter the changes' }).fill('change 4321');
    await expect
      .poll(() => list.getByRole('listitem').allTextContents())
      .toEqual([expect.stringContaining('Change 4321')]);
    await close();
  });

  it.each([
    [1440, false],
    [360, true],
  ])('has no accessibility violation, %i px wide, dark: %s', async (width, dark) => {
    const { page, box, table, close } = await opened(feed, { width, dark });
    await scrollTo(box, 30_000);
    await expect.poll(async () => Math.max(...(await rowIndexes(table)))).toBeGreaterThan(200);
    expect(await layoutFaults(page, 'all')).toEqual([]);
    await close();
  });
});
