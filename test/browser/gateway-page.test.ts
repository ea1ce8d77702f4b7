/** The page of a gateway's operator in Chromium, over a real gateway with a scripted provider. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { documentFingerprint, gatewayPaths } from '../../web/console-document.ts';
import { accessibilityFaults, layoutFaults } from '../support/accessibility.ts';
import { noBrowser, TestBrowser } from '../support/browser.ts';
import {
  fillWorld,
  operatorToken,
  operatorWorld,
  type OperatorWorld,
} from '../support/gateway/operator-world.ts';
import { buildHost, repository } from '../support/host.ts';
import { ledgerOn } from '../support/ledger.ts';
import { everyNth } from '../support/tier.ts';

const signIn = async (page: Page, token = operatorToken) => {
  await page.getByLabel('Operator token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
};
const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 1, name });
const view = (page: Page, name: string) =>
  page.getByRole('navigation').getByRole('link', { name, exact: true });
const field = (page: Page, label: string) => page.getByRole('dialog').getByLabel(label, { exact: true });
const submit = (page: Page, name: string) =>
  page.getByRole('dialog').getByRole('button', { name, exact: true });
/** Texts that a page shows by mistake. */
const mistakes = /undefined|NaN|\[object|Invalid Date|\bnull\b/;

describe.skipIf(noBrowser !== undefined)(`the page of a gateway's operator ${noBrowser ?? ''}`, () => {
  let browser: TestBrowser;
  const worlds: OperatorWorld[] = [];
  const openWorld = async () => {
    const world = await operatorWorld();
    worlds.push(world);
    return world;
  };
  beforeAll(async () => {
    buildHost();
    browser = await TestBrowser.open({ webgpu: false });
  });
  afterAll(async () => {
    await browser?.close();
    for (const world of worlds) await world.close();
  });

  it('takes an operator from an account to a key, its spend, a receipt, a budget and a disabled key', async () => {
    const world = await openWorld();
    const { page, faults, close } = await browser.page({ url: `${world.adminUrl}/`, width: 1440 });
    page.setDefaultTimeout(20_000);
    await page.getByRole('heading', { name: 'Sign in to the gateway' }).waitFor();
    await signIn(page, 'not-the-token-of-any-operator');
    await page.getByText('The gateway has no operator with this token.').waitFor();
    // The token is sent once: the log of changes has one entry with one attempt.
    const { data: refusals } = await world.call<{ data: { action: string; after: object }[] }>(
      'GET',
      '/changes',
    );
    expect(refusals).toMatchObject([{ action: 'login refused', after: { attempts: 1 } }]);
    await signIn(page);
    await heading(page, 'Overview').waitFor();
    await page.getByText('Signed in as ada').waitFor();

    await view(page, 'Accounts').click();
    await page.getByText('No accounts yet.').waitFor();
    await page.getByRole('button', { name: 'Create an account' }).click();
    await field(page, 'Name').fill('acme');
    await field(page, 'Credits in US dollars').fill('5');
    await submit(page, 'Create').click();
    await page.getByRole('link', { name: 'acme' }).click();
    await heading(page, 'acme').waitFor();
    await page.getByRole('button', { name: 'Create a key' }).click();
    await field(page, 'Label').fill('ci');
    await field(page, 'Spending cap in US dollars').fill('1');
    await submit(page, 'Create').click();
    const secret = await page.getByRole('dialog').getByRole('region', { name: 'API key' }).textContent();
    expect(secret).toMatch(/^lathe_gateway_/);
    await submit(page, 'Close').click();

    const asked = await world.ask(secret ?? '', 'gpt-5-mini', 'user-1');
    expect(asked.status).toBe(200);
    await view(page, 'Usage').click();
    const byModel = page.getByRole('region', { name: 'Usage by model' });
    await byModel.getByRole('row', { name: /gpt-5-mini.*\$0\.02425.*100\.0 %/ }).waitFor();
    await page.getByLabel('Group by').selectOption('tag');
    await page.getByRole('region', { name: 'Usage by end user' }).getByText('user-1').waitFor();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download CSV' }).click();
    const csv = readFileSync(await (await download).path(), 'utf8');
    expect(csv).toBe(
      'tag,requests,prompt_tokens,cached_tokens,completion_tokens,spend_usd\r\nuser-1,1,1000,0,12000,0.024250000\r\n',
    );

    await view(page, 'Receipts').click();
    await page.getByLabel('Request id').fill(asked.requestId);
    await page.getByRole('button', { name: 'Show the receipt' }).click();
    await heading(page, 'Receipt').waitFor();
    for (const text of ['Hold placed', 'Settled', 'done 200', '+$0.02425', 'revenue of the operator'])
      await page.getByText(text, { exact: true }).first().waitFor();

    await page.getByRole('link', { name: 'ci' }).click();
    await heading(page, 'ci').waitFor();
    await page.getByRole('button', { name: 'Set a budget' }).click();
    await field(page, 'US dollars').fill('0.00001');
    await field(page, 'Period').fill('day');
    await submit(page, 'Save').click();
    await page.getByRole('region', { name: 'Budgets' }).getByText('day (UTC)').waitFor();
    expect((await world.ask(secret ?? '', 'gpt-5-mini')).status).toBe(402);
    await page.getByRole('button', { name: /^Remove the budget/ }).click();
    await submit(page, 'Remove').click();
    await page.getByText('No budget.').waitFor();
    expect((await world.ask(secret ?? '', 'gpt-5-mini')).status).toBe(200);
    await page.getByRole('button', { name: 'Disable', exact: true }).click();
    await page.getByText('disabled', { exact: true }).waitFor();
    expect((await world.ask(secret ?? '', 'gpt-5-mini')).status).toBe(401);

    await view(page, 'Changes').click();
    const changes = page.getByRole('region', { name: 'Changes' });
    const disabled = changes.getByRole('row', { name: /key disable/ });
    await disabled.getByRole('link', { name: 'ci' }).waitFor();
    await disabled.getByText('admin:ada').waitFor();
    expect(await page.locator('main').textContent()).not.toMatch(mistakes);
    // Chromium logs the 401 of the wrong token.
    expect(faults().filter((fault) => !/status of 401/.test(fault))).toEqual([]);
    const kept = await page.evaluate(
      () => [localStorage, sessionStorage].map((storage) => JSON.stringify(storage)).join() + document.cookie,
    );
    expect(kept).not.toContain(operatorToken);

    // The session survives a reload; signing out ends it.
    await page.reload();
    await heading(page, 'Changes').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to the gateway' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to the gateway' }).waitFor();
    await close();
  });

  it('switches providers with a note, and shows every fault of a refused configuration', async () => {
    const world = await openWorld();
    const { page, faults, close } = await browser.page({ url: `${world.adminUrl}/providers`, width: 1440 });
    page.setDefaultTimeout(20_000);
    await signIn(page);
    await page.getByRole('button', { name: 'Disable azure-west', exact: true }).click();
    await field(page, 'Note').fill('Outage, ticket 17');
    await submit(page, 'Disable').click();
    await page.getByText('by admin:ada: Outage, ticket 17').waitFor();
    await page.getByRole('button', { name: 'Disable gpt-5-mini at openai' }).click();
    await submit(page, 'Disable').click();
    await page.getByRole('button', { name: 'Enable gpt-5-mini at openai' }).click();
    await page.getByRole('button', { name: 'Disable gpt-5-mini at openai' }).waitFor();
    world.writeConfig((text) =>
      text.replace('"openai"\nfamily', '"opennai"\nfamily').replace('retries = 0', 'retries = -1'),
    );
    await page.getByRole('button', { name: 'Reload the configuration' }).click();
    await page.getByText('Refused: 2 faults').waitFor();
    const panel = page.getByRole('region', { name: 'The configuration is refused' });
    await expect.poll(() => panel.getByRole('listitem').count()).toBe(2);
    await panel.getByText(/no provider 'opennai'/).waitFor();
    world.writeConfig((text) => text);
    await page.getByRole('button', { name: 'Reload the configuration' }).click();
    await page.getByText(/Unchanged: version 1|Version 2 is in force/).waitFor();
    await expect.poll(() => panel.count()).toBe(0);
    expect(faults().filter((fault) => !/status of 409/.test(fault))).toEqual([]);
    await close();
  });

  it('shows each violation at its field, and a gateway that does not answer as one banner', async () => {
    const world = await openWorld();
    const { page, close } = await browser.page({ url: `${world.adminUrl}/keys`, width: 1440 });
    page.setDefaultTimeout(20_000);
    await signIn(page);
    await page.getByText('No keys yet.').waitFor();
    await page.getByRole('button', { name: 'Create a key' }).click();
    await field(page, 'Spending cap in US dollars').fill('much');
    await field(page, 'Requests per minute').fill('0');
    await field(page, 'Concurrent requests').fill('a few');
    await submit(page, 'Create').click();
    const described = async (label: string) =>
      await field(page, label).evaluate((input) => {
        const id = input.getAttribute('aria-describedby');
        return [
          input.getAttribute('aria-invalid'),
          id === null ? '' : document.getElementById(id)?.textContent,
        ];
      });
    for (const [label, text] of [
      ['Account', /must not be empty/],
      ['Spending cap in US dollars', /much/],
      ['Requests per minute', /at least 1/],
      ['Concurrent requests', /a whole number/],
    ] as const) {
      await expect
        .poll(() => described(label), { message: label })
        .toEqual(['true', expect.stringMatching(text)]);
    }
    expect(await described('Label')).toEqual(['false', expect.anything()]);
    // What belongs to no field is above all fields.
    for (const label of ['Requests per minute', 'Concurrent requests', 'Spending cap in US dollars'])
      await field(page, label).fill('');
    await field(page, 'Account').fill('nobody');
    await submit(page, 'Create').click();
    await page
      .getByRole('dialog')
      .getByRole('alert')
      .getByText(/nobody/)
      .waitFor();
    await submit(page, 'Cancel').click();

    await view(page, 'Providers').click();
    await page.getByText('active', { exact: true }).first().waitFor();
    await world.gateway.end();
    await view(page, 'Changes').click();
    await page.getByText('The gateway does not answer.').waitFor();
    await view(page, 'Providers').click();
    await page.getByText('unknown', { exact: true }).first().waitFor();
    expect(await page.getByText(/^(?:active|available|not used yet)$/).count()).toBe(0);
    expect(await accessibilityFaults(page, 'all')).toEqual([]);
    await view(page, 'Keys').click();
    // What was read before stays, and no view repeats the banner.
    await page.getByText('No keys yet.').waitFor();
    expect(await page.getByRole('alert').count()).toBe(1);
    await close();
  });

  it('lists 5,000 keys and accounts by pages, and finds one', async () => {
    const world = await openWorld();
    const { id } = await world.call<{ id: string }>('POST', '/accounts', { name: 'large', credit_usd: '1' });
    await world.call('POST', '/keys', { account: 'large', label: 'template' });
    const books = await ledgerOn(world.database);
    await books.store.transaction(async (tx) => {
      const [key] = await tx.selectFrom('gateway_keys').selectAll().execute();
      const account = await tx
        .selectFrom('gateway_accounts')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      for (let at = 0; at < 5000; at += 100) {
        const numbers = Array.from({ length: 100 }, (_, index) => String(at + index).padStart(4, '0'));
        if (key)
          await tx
            .insertInto('gateway_keys')
            .values(numbers.map((n) => ({ ...key, id: `k_${n}`, hash: `h${n}`, label: `job ${n}` })))
            .execute();
        await tx
          .insertInto('gateway_accounts')
          .values(
            numbers.map((n) => ({ ...account, id: `a_${n}`, name: `team ${n}`, parent_id: id, balance: 0n })),
          )
          .execute();
      }
    });
    await books.close();
    const { page, faults, close } = await browser.page({
      url: `${world.adminUrl}/keys?order=label`,
      width: 1440,
    });
    page.setDefaultTimeout(20_000);
    await signIn(page);
    await page.getByText('1 to 50 of 5,001 keys').waitFor();
    expect(await page.getByRole('region', { name: 'Keys' }).locator('tbody tr').count()).toBe(50);
    await page.getByRole('button', { name: 'Next page' }).click();
    await page.getByText('51 to 100 of 5,001 keys').waitFor();
    await page.getByRole('link', { name: 'job 0050' }).waitFor();
    await page.getByLabel('Search keys').fill('job 4321');
    await page.getByText('1 key', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'job 4321' }).click();
    await heading(page, 'job 4321').waitFor();
    await view(page, 'Accounts').click();
    await page.getByText('1 to 50 of 5,001 accounts').waitFor();
    expect(faults()).toEqual([]);
    await close();
  });

  it('uses the current admin API (npm run gateway:types regenerates its types)', async () => {
    const world = await openWorld();
    const document = (await (await fetch(`${world.adminUrl}/openapi.json`)).json()) as Record<
      string,
      unknown
    >;
    const types = readFileSync(join(repository, 'web/api/gateway-schema.d.ts'), 'utf8');
    expect(types.split('\n', 1)[0]).toContain(documentFingerprint(document, gatewayPaths));
  });

  describe('every view', () => {
    let world: OperatorWorld;
    let paths: Readonly<Record<string, string>>;
    beforeAll(async () => {
      world = await openWorld();
      const { keys, requests } = await fillWorld(world);
      const { data } = await world.call<{ data: { id: string; name: string }[] }>('GET', '/accounts');
      paths = {
        key: `keys/${keys[4]?.id}`,
        account: `accounts/${data.find(({ name }) => name === 'support')?.id}`,
        receipt: `receipts/${requests[0]?.requestId}`,
        'failed receipt': `receipts/${requests.at(-1)?.requestId}`,
      };
    });

    const views = [
      ['overview', '', 'Overview'],
      ['keys', 'keys', 'Keys'],
      ['key', '', 'staging'],
      ['accounts', 'accounts', 'Accounts'],
      ['account', '', 'support'],
      ['usage', 'usage', 'Usage'],
      ['usage by key', 'usage?by=key&range=90d', 'Usage'],
      ['catalog', 'catalog', 'Catalog'],
      ['model', 'catalog/gpt-5', 'gpt-5'],
      ['providers', 'providers', 'Providers'],
      ['receipts', 'receipts', 'Receipts'],
      ['receipt', '', 'Receipt'],
      ['failed receipt', '', 'Receipt'],
      ['missing receipt', 'receipts/req_none', 'Request not found'],
      ['changes', 'changes', 'Changes'],
    ] as const;

    describe.each([
      [1440, false],
      [1440, true],
      [360, false],
      [360, true],
    ])('%i px wide, dark: %s', (width, dark) => {
      it.each(everyNth(views, 4))(
        '%s has no serious accessibility violation, no console error, no overflow and no text by mistake',
        async (name, path, title) => {
          const url = `${world.adminUrl}/${paths[name] ?? path}`;
          const { page, faults, close } = await browser.page({ url, width, dark });
          page.setDefaultTimeout(20_000);
          await signIn(page);
          await heading(page, title).waitFor();
          await page.waitForLoadState('networkidle');
          await expect.poll(() => page.getByText(/^Loading /).count()).toBe(0);
          expect(await layoutFaults(page)).toEqual([]);
          expect(faults().filter((fault) => !/status of 404/.test(fault))).toEqual([]);
          expect(await page.locator('main').textContent()).not.toMatch(mistakes);
          await close();
        },
      );
    });

    it('shows what needs an operator on the overview', async () => {
      const { page, close } = await browser.page({ url: `${world.adminUrl}/`, width: 1440 });
      page.setDefaultTimeout(20_000);
      await signIn(page);
      await page
        .getByRole('region', { name: 'The configuration is refused' })
        .getByText(/'opennai'/)
        .waitFor();
      await page
        .getByRole('region', { name: 'Budget alerts' })
        .getByRole('row', { name: /support.*day \(UTC\).*\(85 %\)/ })
        .waitFor();
      await page
        .getByRole('region', { name: 'Provider health' })
        .getByRole('row', { name: /azure-west.*provider disabled/ })
        .waitFor();
      await page
        .getByRole('region', { name: 'Latest failed requests' })
        .getByText('failed 502')
        .first()
        .waitFor();
      await close();
    });
  });
});
