/** Changes of keys and accounts: a running gateway, which has the key in its cache, observes them with the next request. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { prices, servedGateway } from '../support/gateway/served.ts';

type Served = Awaited<ReturnType<typeof servedGateway>>;
let served: Served;
let customer: Awaited<ReturnType<Served['customer']>>;

beforeAll(async () => {
  served = await servedGateway();
  served.replies({ say: { text: 'Hello.', usage: { input: 10, output: 5 } } });
});
afterAll(() => served.close());
beforeEach(async () => {
  customer = await served.customer();
  expect((await chat()).status).toBe(200);
});

const chat = (model = 'plain') =>
  served.ask('/v1/chat/completions', {
    key: customer.secret,
    body: { model, max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
  });
const cost = 10n * prices.in + 5n * prices.out;

describe('the next request after a change of its key', () => {
  it('may use only the models that are listed now', async () => {
    const { ledger } = served.books;
    await ledger.updateKey(customer.keyId, { models: ['full'] });
    expect(await chat()).toMatchObject({ status: 404, json: { error: { code: 'model_not_found' } } });
    expect((await chat('full')).status).toBe(200);
    // A model that the cached settings do not allow.
    await ledger.updateKey(customer.keyId, { models: ['plain'] });
    expect((await chat()).status).toBe(200);
    await ledger.updateKey(customer.keyId, { models: null });
    expect((await chat('full')).status).toBe(200);
  });

  it('is refused by a lowered cap, and admitted by a raised one', async () => {
    const { ledger } = served.books;
    await ledger.updateKey(customer.keyId, { cap: cost });
    expect(await chat()).toMatchObject({ status: 402, json: { error: { type: 'key_spend_cap_exceeded' } } });
    await ledger.updateKey(customer.keyId, { cap: 10n ** 9n });
    expect((await chat()).status).toBe(200);
    await ledger.updateKey(customer.keyId, { cap: null });
    expect((await chat()).status).toBe(200);
    const [row] = await ledger.keys(customer.accountId);
    expect(row).toMatchObject({ spent: 3n * cost, held: 0n, cap: undefined, revision: 3n });
  });

  it('counts once, although it is checked again', async () => {
    const { ledger } = served.books;
    const fresh = await served.customer();
    await ledger.updateKey(fresh.keyId, { requestsPerMinute: 3 });
    customer = fresh;
    expect((await chat()).status).toBe(200);
    // The gateway has the key in its cache with the label of before.
    await ledger.updateKey(fresh.keyId, { label: 'changed' });
    expect((await chat()).status).toBe(200);
    expect((await chat()).status).toBe(200);
  });

  it("has the key's own limits", async () => {
    const { ledger } = served.books;
    const limited = {
      status: 429,
      json: { error: { type: 'rate_limit_error', code: 'rate_limit_exceeded' } },
    };
    await ledger.updateKey(customer.keyId, { requestsPerMinute: 1 });
    expect(await chat()).toMatchObject(limited);
    await ledger.updateKey(customer.keyId, { requestsPerMinute: null, tokensPerMinute: 10 });
    // The answer has 15 tokens, more than the limit; the key then waits.
    await expect.poll(async () => (await chat()).status).toBe(200);
    expect(await chat()).toMatchObject(limited);
    await ledger.updateKey(customer.keyId, { tokensPerMinute: null });
    await expect.poll(async () => (await chat()).status).toBe(200);
    await expect(ledger.updateKey(customer.keyId, { concurrency: 0 })).rejects.toThrow(
      /A key's concurrency must be a whole number from 1 to 100000, got 0/,
    );
  });

  it('is refused once the key expires earlier', async () => {
    const { ledger } = served.books;
    await ledger.updateKey(customer.keyId, { expiresAt: '2026-01-01T00:00:00Z' });
    expect((await chat()).status).toBe(401);
    await ledger.updateKey(customer.keyId, { expiresAt: null });
    expect((await chat()).status).toBe(200);
  });

  it.each(['key', 'account'] as const)(
    'is refused like an unknown key while the %s is disabled',
    async (what) => {
      const { ledger } = served.books;
      const setDisabled = (isDisabled: boolean) =>
        what === 'key'
          ? ledger.setKeyDisabled(customer.keyId, isDisabled)
          : ledger.setAccountDisabled(customer.accountId, isDisabled);
      await setDisabled(true);
      const paths = ['/v1/models', '/v1/balance', '/v1/keys'];
      const refused = await chat();
      expect(refused).toMatchObject({ status: 401, json: { error: { code: 'invalid_api_key' } } });
      for (const path of paths)
        expect((await served.ask(path, { key: customer.secret })).text).toBe(refused.text);
      await setDisabled(false);
      // An unknown key is remembered for a second.
      await expect.poll(async () => (await chat()).status).toBe(200);
    },
  );
});

describe('a change', () => {
  it('cannot put a cap below what is spent and held, nor revive a revoked key', async () => {
    const { ledger } = served.books;
    await expect(ledger.updateKey(customer.keyId, { cap: cost - 1n })).rejects.toThrow(
      new RegExp(`must be at least ${cost} nanodollars.*got ${cost - 1n}`),
    );
    await ledger.updateKey(customer.keyId, { cap: cost });
    await ledger.revokeKey(customer.keyId);
    await expect(ledger.updateKey(customer.keyId, { cap: null })).rejects.toThrow(/is revoked/);
    await expect(ledger.setKeyDisabled(customer.keyId, false)).rejects.toThrow(/is revoked/);
  });

  it('is logged with the old and the new values, and only where something changed', async () => {
    const { ledger } = served.books;
    await ledger.updateKey(customer.keyId, { cap: 10n ** 9n, label: 'ci', models: ['plain'] });
    await ledger.updateKey(customer.keyId, { cap: 10n ** 9n, label: 'ci', models: ['plain'] });
    await ledger.setKeyDisabled(customer.keyId, true);
    await ledger.setKeyDisabled(customer.keyId, true);
    await ledger.revokeKey(customer.keyId);
    const entries = await ledger.changes(customer.accountId, 50);
    expect(entries.map(({ action }) => action).toSorted()).toEqual([
      'account create',
      'key create',
      'key disable',
      'key revoke',
      'key update',
    ]);
    expect(entries.find(({ action }) => action === 'key update')).toMatchObject({
      subject: customer.keyId,
      before: { label: null, cap_nanodollars: null, models: null },
      after: { label: 'ci', cap_nanodollars: '1000000000', models: ['plain'] },
    });
  });
});
