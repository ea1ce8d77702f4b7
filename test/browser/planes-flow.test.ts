import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noBrowser } from '../support/browser.ts';
import { type Console, openConsole, signIn } from '../support/console.ts';
import { recorderCommand } from '../support/watched-host.ts';

const question = 'What is the capital of France?';
const answer = 'The capital of France is Paris.';
const lastAnswer = (page: Page) => page.getByRole('article', { name: 'Answer' }).last();
const tokensOf = (page: Page) => lastAnswer(page).getByRole('group', { name: /^Tokens of the answer/ });

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

/** Drops the 401 that Chromium logs when the page asks for the token; it is not a fault. */
const withoutTokenPrompt = (faults: readonly string[]) =>
  faults.filter((fault) => !/status of 401/.test(fault));

describe.skipIf(noBrowser !== undefined)(`chat, sessions, observe and recorder ${noBrowser ?? ''}`, () => {
  let host: Console;
  beforeAll(async () => {
    host = await openConsole();
  });
  afterAll(() => host?.end());

  const complete = (content: string) =>
    host.send('POST', '/v1/chat/completions', {
      model: 'lathe-tiny',
      messages: [{ role: 'user', content }],
      max_tokens: 4,
    });
  const bearer = () => ({ authorization: `Bearer ${host.token}`, 'content-type': 'application/json' });
  /** Rows come in batches, a moment after what they tell of. */
  const rowsOf = async (query: object): Promise<unknown[][]> => {
    const response = await fetch(`${host.url}/observe/v1/query`, {
      method: 'POST',
      headers: bearer(),
      body: JSON.stringify(query),
    });
    return ((await response.json()) as { rows?: unknown[][] }).rows ?? [];
  };

  it('streams an answer, and shows the alternatives to each of its tokens', async () => {
    const { page, faults, close } = await host.view('chat');
    await say(page, question);
    await page.getByText('The answer is complete.').waitFor();
    await lastAnswer(page).getByText(answer).waitFor();
    await lastAnswer(page).getByRole('button', { name: 'Tokens' }).click();
    const tokens = tokensOf(page);
    await expect.poll(() => tokens.textContent()).toBe(answer);
    const facts = lastAnswer(page).getByRole('list', { name: 'Most likely tokens at this position' });
    await expect.poll(() => facts.count()).toBe(0);

    await tokens.getByText('Paris').hover();
    await facts.waitFor();
    await expect.poll(() => facts.getByRole('listitem').count()).toBeGreaterThan(2);
    await expect.poll(() => facts.locator('[aria-current="true"]').textContent()).toMatch(/Paris.*%/);
    await page.getByRole('heading', { level: 1 }).hover();
    await facts.waitFor({ state: 'detached' });

    await tokens.focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    await lastAnswer(page)
      .getByText(/^Token 2 of \d+:/)
      .waitFor();
    await expect.poll(() => facts.getByRole('listitem').count()).toBeGreaterThan(2);
    expect(faults()).toEqual([]);
    await close();
  });

  it('verifies a receipt in the page, and detects a tampered one', async () => {
    const task = await fetch(`${host.url}/agent/v1/tasks`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: question }),
    });
    const id = /"task_id":"(t\d+)"/.exec(await task.text())?.[1] ?? '';
    const { page, faults, close } = await host.view('sessions');
    await page.getByRole('table', { name: 'Sessions' }).getByRole('link', { name: question }).click();
    const checked = page.getByRole('list', { name: 'Checks by this page' }).getByRole('listitem');
    await checked.first().waitFor();
    const verdicts = async () =>
      (await checked.allTextContents()).map((text) =>
        /^(.*) (Digest|Key|Signature) /.exec(text)?.slice(1, 3),
      );
    expect(await verdicts()).toEqual([
      ['valid', 'Digest'],
      ['valid', 'Key'],
      ['valid', 'Signature'],
    ]);

    let tampered: (receipt: Record<string, unknown>) => object = (receipt) => receipt;
    await page.route(`**/agent/v1/sessions/${id}/receipt`, async (route) => {
      const response = await route.fetch();
      const receipt = (await response.json()) as Record<string, unknown>;
      await route.fulfill({ response, json: { ...receipt, ...tampered(receipt) } });
    });
    const again = async () => {
      await page.reload();
      await checked.first().waitFor();
      return await verdicts();
    };
    tampered = ({ seq }) => ({ seq: Number(seq) + 1 });
    expect(await again()).toEqual([
      ['invalid', 'Digest'],
      ['valid', 'Key'],
      ['valid', 'Signature'],
    ]);
    tampered = ({ signature }) => ({
      signature: { ...(signature as object), value: `${'A'.repeat(86)}==` },
    });
    expect(await again()).toEqual([
      ['valid', 'Digest'],
      ['valid', 'Key'],
      ['invalid', 'Signature'],
    ]);
    expect(faults()).toEqual([]);
    await close();
  });

  it('lets the user dismiss the token dialog and open it again', async () => {
    const { page, faults, close } = await host.view('observe');
    const dialog = page.getByRole('dialog', { name: /bearer token/ });
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('A bearer token is required to see the recorded activity.').waitFor();
    await expect.poll(() => dialog.count()).toBe(0);
    await page.getByRole('button', { name: 'Sign in' }).click();
    // A wrong token is reported, and the dialog stays open.
    await signIn(page, 'none-of-this-host');
    await dialog.getByText(/refused this token/).waitFor();
    await signIn(page, host.token);
    await page.getByRole('tab', { name: 'Explore' }).waitFor();
    await expect.poll(() => dialog.count()).toBe(0);
    expect(withoutTokenPrompt(faults())).toEqual([]);
    await close();
  });

  it('runs a query from the form, loads the next page, and draws a chart', async () => {
    // Distinguished from rows of other tests by length.
    const where = [{ column: 'completion_tokens', op: 'lte', value: 4 }];
    for (const what of ['one', 'two', 'three', 'four', 'five', 'six']) await complete(what);
    await expect.poll(() => rowsOf({ surface: 'completions', where })).toHaveLength(6);
    const { page, faults, close } = await host.view('observe/explore');
    await signIn(page, host.token);
    await page.getByLabel('Surface').selectOption('completions');
    await page.getByRole('button', { name: 'Add a condition' }).click();
    await page.getByLabel('Column of condition 1').selectOption('completion_tokens');
    await page.getByLabel('Operator of condition 1').selectOption('lte');
    await page.getByLabel('Value of condition 1').fill('4');
    await page.getByLabel('Rows per page').fill('4');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    const rows = page.getByRole('table', { name: 'Rows of completions' }).locator('tbody tr');
    await page.getByText('4 shown, more available').waitFor();
    await expect.poll(() => rows.count()).toBe(4);
    await page.getByRole('button', { name: 'Load the next page' }).click();
    await page.getByText('6 shown').waitFor();
    await expect.poll(() => rows.count()).toBe(6);
    await expect.poll(() => page.getByRole('button', { name: 'Load the next page' }).count()).toBe(0);

    await page.getByRole('tab', { name: 'Chart' }).click();
    await page.getByLabel('Y axis').selectOption('completion_tokens');
    const chart = page.getByRole('img', { name: /completion_tokens/ });
    await chart.locator('canvas').waitFor();
    // A figure of groups, from the form as well.
    await page.getByLabel('aggregates by group').check();
    await page.getByRole('button', { name: 'Add a group' }).click();
    await page.getByLabel('Column of group 1').selectOption('outcome');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('tab', { name: 'Table' }).click();
    await page.getByRole('cell', { name: '6', exact: true }).waitFor();
    expect(withoutTokenPrompt(faults())).toEqual([]);
    await close();
  });

  it('records content while a rack is armed, and deletes it when the rack is purged', async () => {
    const { page, faults, close } = await host.view('recorder');
    await signIn(page, host.token);
    const rack = page.getByRole('region', { name: 'completions' });
    await rack.getByRole('button', { name: 'Change the policy of the rack completions' }).click();
    await rack.getByLabel('Stored content').selectOption('full');
    await rack.getByRole('button', { name: 'Save the policy' }).click();
    await rack.getByRole('button', { name: 'Arm the rack completions' }).click();
    await rack.getByText('armed: recording').waitFor();

    // The bearer token cannot create grants; the command line can.
    await recorderCommand(host.dataDir, 'grant --rack completions --verbs read --expires 1d');
    await page.getByRole('tab', { name: 'Grants' }).click();
    await page.getByRole('row', { name: /^active completions read/ }).waitFor();

    const views = page.getByRole('navigation', { name: /views/i });
    await views.getByRole('link', { name: 'Chat' }).click();
    await say(page, question);
    await page.getByText('The answer is complete.').waitFor();

    await views.getByRole('link', { name: 'Recorder' }).click();
    await rack.getByRole('link', { name: 'View events' }).click();
    const kept = page.getByRole('table', { name: 'Rows of transcript' });
    const again = page.getByRole('button', { name: 'Run again' });
    await kept.waitFor();
    await kept.getByRole('cell', { name: question, exact: true }).waitFor();
    await kept.getByRole('cell', { name: answer, exact: true }).waitFor();

    await views.getByRole('link', { name: 'Recorder' }).click();
    await rack.getByRole('button', { name: 'Purge the rack completions' }).click();
    const dialog = page.getByRole('dialog', { name: 'Purge the rack completions' });
    const remove = dialog.getByRole('button', { name: 'Delete the history' });
    expect(await remove.isDisabled()).toBe(true);
    await dialog.getByLabel('Type completions to confirm').fill('completions');
    await remove.click();
    await dialog.getByText('The history was deleted from the data directory.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await rack.getByRole('button', { name: 'Disarm the rack completions' }).click();
    await page.goBack();
    await again.click();
    await page.getByText('No matching rows.').waitFor();
    expect(await rowsOf({ surface: 'transcript' })).toEqual([]);
    expect(withoutTokenPrompt(faults())).toEqual([]);
    await close();
  });
});

describe.skipIf(noBrowser !== undefined)(`a long answer ${noBrowser ?? ''}`, () => {
  let host: Console;
  beforeAll(async () => {
    host = await openConsole({ script: { pieces: 3000, delayMs: 50 } });
  });
  afterAll(() => host?.end());

  it('keeps the text of a stopped answer, and regenerates it', async () => {
    const { page, faults, close } = await host.view('chat');
    await say(page, 'Go on and on.');
    await lastAnswer(page).getByRole('button', { name: 'Tokens' }).click();
    const tokens = tokensOf(page);
    await expect.poll(async () => (await tokens.textContent())?.length ?? 0).toBeGreaterThan(4);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('stopped by you').waitFor();
    const text = (await tokens.textContent()) ?? '';
    expect(text).toMatch(/^x{5,2999}$/);
    await page.getByRole('button', { name: 'Send' }).waitFor();
    expect(await tokens.textContent(), 'no more text arrives').toBe(text);

    await page.getByRole('button', { name: 'Regenerate' }).click();
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    expect(faults()).toEqual([]);
    await close();
  });
});
