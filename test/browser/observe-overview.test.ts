import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { layoutFaults } from '../support/accessibility.ts';
import { noBrowser, type PageOptions, TestBrowser } from '../support/browser.ts';
import { openConsole, signIn } from '../support/console.ts';
import { driveCompletions, driveGateway, driveTasks, startWholeHost } from '../support/driven-host.ts';
import { buildHost } from '../support/host.ts';

type Host = Awaited<ReturnType<typeof startWholeHost>>;
type Row = Readonly<Record<string, string | number | boolean | null>>;

/** Times that the scripted model reports, in ms; an answer takes longer. */
const timings = { queued_ms: 4, prefill_ms: 9, decode_ms: 30 };
const withoutTokenPrompt = (faults: readonly string[]) =>
  faults.filter((fault) => !/status of 401/.test(fault));

describe.skipIf(noBrowser !== undefined)(`the overview of observe ${noBrowser ?? ''}`, () => {
  let host: Host;
  let browser: TestBrowser;
  let tasks: Awaited<ReturnType<typeof driveTasks>>;
  let rows: Row[];

  /** Stops reading an answer after its first part. */
  async function cancelAnswer(): Promise<void> {
    const abort = new AbortController();
    const { body } = await fetch(`${host.url}/v1/chat/completions`, {
      method: 'POST',
      signal: abort.signal,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'scripted',
        stream: true,
        messages: [{ role: 'user', content: 'Hello?' }],
      }),
    });
    await body?.getReader().read();
    abort.abort();
  }

  beforeAll(async () => {
    buildHost();
    browser = await TestBrowser.open();
    host = await startWholeHost({ script: { delayMs: 20, timings } });
    tasks = await driveTasks(host);
    const sent = await driveCompletions(host);
    await driveGateway(host);
    await cancelAnswer();
    // The gateway asked the resident model twice; tasks have a turn or two each.
    const count = sent.length + 2 + 1 + 10;
    await host.wait('all is fed', async () => {
      rows = (await host.rows({ surface: 'completions' })) as Row[];
      // On a busy machine an agent may ask once more.
      return rows.length >= count && rows.some(({ outcome }) => outcome === 'abandoned');
    });
    expect(rows.filter(({ outcome }) => outcome === 'abandoned')).toHaveLength(1);
    expect(rows.filter(({ outcome }) => outcome === 'refused')).toHaveLength(
      sent.filter(({ status }) => status !== 200).length,
    );
  });
  afterAll(async () => {
    await browser?.close();
    await host?.end();
  });

  async function opened(path: string, options: Omit<PageOptions, 'url'> = {}) {
    const watched = await browser.page({ ...options, url: `${host.url}/console/${path}` });
    await signIn(watched.page, host.bearer.authorization.replace('Bearer ', ''));
    return watched;
  }
  const totalOf = async (page: Page, name: string): Promise<string> =>
    (await page
      .getByRole('region', { name: 'Totals' })
      .locator('div', { has: page.getByText(name, { exact: true }) })
      .locator('strong')
      .textContent()) ?? '';
  const numbersOf = (name: string) =>
    rows.flatMap((row) => (row[name] === null ? [] : [Number(row[name])])).sort((a, b) => a - b);
  const sum = (...names: string[]) =>
    names
      .flatMap(numbersOf)
      .reduce((total, one) => total + one, 0)
      .toLocaleString('en');
  const countOf = (...outcomes: string[]) =>
    String(rows.filter(({ outcome }) => outcomes.includes(String(outcome))).length);

  it('shows the figures of what was sent', async () => {
    const { page, faults, close } = await opened('observe?range=15m');
    await page.getByRole('region', { name: 'Totals' }).waitFor();
    expect(await totalOf(page, 'Requests')).toBe(String(rows.length));
    expect(await totalOf(page, 'Errors')).toBe(countOf('failed', 'refused'));
    expect(await totalOf(page, 'Cancelled')).toBe('1');
    expect(await totalOf(page, 'Tokens in')).toBe(sum('prompt_tokens', 'prompt_tokens_claimed'));
    expect(await totalOf(page, 'Tokens out')).toBe(sum('completion_tokens', 'completion_tokens_claimed'));
    expect(await totalOf(page, 'Time in the queue')).toBe('4 ms');

    for (const [table, column, outcomeOf] of [
      ['Requests by model', 'model', String],
      ['Requests by wire', 'wire', String],
      [
        'Requests by outcome',
        'outcome',
        (name: string) => ({ ok: 'done', abandoned: 'cancelled' })[name] ?? name,
      ],
    ] as const) {
      const expected = [...Map.groupBy(rows, (row) => String(row[column] ?? 'none'))].map(
        ([name, members]) => `${outcomeOf(name)} ${members.length}`,
      );
      const cells = await page
        .getByRole('table', { name: table })
        .locator('tbody tr')
        .evaluateAll((lines) =>
          lines.map((line) =>
            [...line.children]
              .slice(0, 2)
              .map((cell) => cell.textContent)
              .join(' '),
          ),
        );
      expect(cells.toSorted(), table).toEqual(expected.toSorted());
    }
    // The charts have all requests too.
    const requests = page.getByRole('region', { name: 'Requests and errors', exact: true });
    await requests.getByText('Values as a table').click();
    // A bucket for each minute, and that of the start.
    await expect.poll(() => requests.locator('tbody tr').count()).toBe(16);
    const perBucket = await requests.locator('tbody tr td:nth-child(2)').allTextContents();
    expect(perBucket.reduce((total, text) => total + Number(text.replace(',', '')), 0)).toBe(rows.length);
    expect(withoutTokenPrompt(faults())).toEqual([]);
    await close();
  });

  it('lists requests, errors, slow ones, tasks and gateway requests', async () => {
    const { page, close } = await opened('observe');
    const linesOf = async (tab: string, caption = tab) => {
      await page.getByRole('tab', { name: tab, exact: true }).click();
      const table = page.getByRole('table', { name: caption, exact: true });
      await table.waitFor();
      return await table.locator('tbody tr').allTextContents();
    };
    expect(await linesOf('Requests')).toHaveLength(rows.length);
    const heads = page.getByRole('table', { name: 'Requests', exact: true }).getByRole('columnheader');
    expect((await heads.allTextContents()).slice(0, 5)).toEqual([
      'Time',
      'Model',
      'Outcome',
      'Latency',
      'Tokens in, out',
    ]);
    const errors = await linesOf('Errors');
    expect(errors).toHaveLength(Number(countOf('failed', 'refused')));
    for (const line of errors) expect(line).toMatch(/failed|refused/);
    const [slowest] = await linesOf('Slow requests');
    expect(slowest).toContain('failed: gateway_failed');
    expect(await linesOf('Tasks and runs')).toHaveLength(Object.keys(tasks).length);
    expect(await linesOf('Gateway')).toHaveLength(5);
    await close();
  });

  it('opens the trace of a request, whose spans add up to its latency', async () => {
    const row = rows.find(({ wire, outcome }) => wire === 'chat' && outcome === 'ok') ?? {};
    const { page, faults, close } = await opened('observe');
    await page.getByRole('link', { name: `Trace of ${String(row['id'])}` }).click();
    const spans = page.getByRole('list', { name: 'Spans of the request' }).getByRole('listitem');
    await spans.first().waitFor();
    const durations = await spans.evaluateAll((items) =>
      items.map((item) => Number(item.getAttribute('data-duration-ms'))),
    );
    expect(durations.reduce((total, one) => total + one, 0)).toBeCloseTo(Number(row['total_ms']), 3);
    const text = (await spans.allTextContents()).join('\n');
    for (const part of [/^Queue 4 ms/m, /^Prefill 9 ms/m, /^Decode 30 ms/m]) expect(text).toMatch(part);
    await page.getByText('133.3 tokens/s while decoding').waitFor();
    await page.getByRole('link', { name: 'All recorded fields' }).click();
    await page.getByRole('cell', { name: String(row['id']) }).waitFor();
    expect(withoutTokenPrompt(faults())).toEqual([]);
    await close();
  });

  it('opens the trace of a task: its turns, its tool calls, its receipt', async () => {
    const { page, faults, close } = await opened('observe?list=work');
    await page.getByRole('link', { name: `Trace of ${tasks.look.id}` }).click();
    const spans = page.getByRole('list', { name: 'Spans of the task' }).getByRole('listitem');
    await spans.first().waitFor();
    expect(
      (await spans.allTextContents()).map((text) => /^(Model, turn \d|Tool \w+)/.exec(text)?.[1]),
    ).toEqual(['Model, turn 1', 'Tool observe_health', 'Model, turn 2']);
    await page.getByRole('link', { name: 'Model, turn 2' }).click();
    await page.getByRole('heading', { name: `Request ${tasks.look.id}:2` }).waitFor();
    await page.getByRole('link', { name: 'Receipt' }).click();
    await page.getByRole('list', { name: 'Checks by this page' }).waitFor();
    expect(withoutTokenPrompt(faults())).toEqual([]);
    await close();
  });

  it('opens the trace of a gateway request with its attempt at the provider', async () => {
    const { page, close } = await opened('observe?list=gateway');
    const line = page.getByRole('table', { name: 'Gateway' }).getByRole('row', { name: /far-1.*done/ });
    await line.first().getByRole('link').click();
    const spans = page.getByRole('list', { name: 'Spans of the request' });
    await spans.getByText('Attempt 1: far').waitFor();
    await close();
  });

  it('has the chosen time range in the address; old links to queries still work', async () => {
    const { page, close } = await opened('observe');
    await page.getByRole('region', { name: 'Totals' }).waitFor();
    await page.getByRole('button', { name: '15 min' }).click();
    await expect.poll(() => new URL(page.url()).search).toBe('?range=15m');
    expect(await page.getByRole('button', { name: '15 min' }).getAttribute('aria-pressed')).toBe('true');
    await page.getByRole('button', { name: 'All', exact: true }).click();
    await page.getByRole('region', { name: 'Totals' }).waitFor();
    expect(await totalOf(page, 'Requests')).toBe(String(rows.length));
    await page.goto(`${host.url}/console/observe?surface=tasks`);
    await expect.poll(() => page.getByLabel('Surface').inputValue()).toBe('tasks');
    await close();
  });

  it.each([
    ['observe', 1440, false],
    ['observe', 360, true],
    ['task', 1440, true],
    ['request', 360, false],
  ])('%s has no accessibility violation, %i px wide, dark: %s', async (name, width, dark) => {
    const path = {
      observe: 'observe',
      task: `observe/traces/${tasks.look.id}`,
      request: `observe/requests/${String(rows.find(({ wire }) => wire === 'chat')?.['id'])}`,
    }[name];
    const { page, idle, close } = await opened(path ?? '', { width, dark });
    await idle();
    expect(await layoutFaults(page, 'all')).toEqual([]);
    await close();
  });
});

describe.skipIf(noBrowser !== undefined)(`the overview of an unused host ${noBrowser ?? ''}`, () => {
  it('says what to do next', async () => {
    const host = await openConsole({ script: {} });
    const { page, close } = await host.view('observe');
    await signIn(page, host.token);
    await page.getByText('No requests in this time range.').first().waitFor();
    await page.getByRole('button', { name: 'All', exact: true }).click();
    await page.getByText('No requests yet.').waitFor();
    await page.getByRole('main').getByRole('link', { name: 'chat' }).waitFor();
    await close();
    await host.end();
  });
});
