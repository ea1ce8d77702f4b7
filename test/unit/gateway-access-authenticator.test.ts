import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAuthenticator } from '../../src/gateway/access/authenticator.ts';
import { createExpiringCache } from '../../src/gateway/access/expiring-cache.ts';
import type { WireError } from '../../src/wires/core/error.ts';
import { openLedger } from '../../src/gateway/ledger/index.ts';
import type { KeyRow } from '../../src/gateway/ledger/types.ts';
import { generateSecret, hashSecret } from '../../src/signing/secret.ts';
import { describeDatabases } from '../support/databases.ts';
import { AccessWorld } from '../support/gateway/access.ts';
import { ManualClock } from '../support/manual-clock.ts';

const row = (id: string, more: Partial<KeyRow> = {}): KeyRow => ({
  id,
  accountId: `a_of_${id}`,
  label: undefined,
  last4: 'abcd',
  cap: undefined,
  spent: 0n,
  held: 0n,
  models: undefined,
  createdAt: '2029-01-01T00:00:00.000Z',
  expiresAt: undefined,
  revokedAt: undefined,
  disabledAt: undefined,
  revision: 0n,
  concurrency: undefined,
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  ...more,
});

function world() {
  const clock = new ManualClock();
  const rows = new Map<string, KeyRow>();
  const asked: string[] = [];
  const ledger = {
    findKey: async (hash: string) => {
      asked.push(hash);
      await Promise.resolve();
      return rows.get(hash);
    },
  };
  const authenticator = createAuthenticator({ ledger, now: clock.now, monotonicMs: clock.monotonic });
  return {
    clock,
    asked,
    ledger,
    add: (id: string, more: Partial<KeyRow> = {}) => {
      const secret = generateSecret('gateway');
      rows.set(hashSecret(secret), row(id, more));
      return secret;
    },
    change: (secret: string, more: Partial<KeyRow>) => {
      const hash = hashSecret(secret);
      rows.set(hash, { ...(rows.get(hash) as KeyRow), ...more });
    },
    ask: (headers: Readonly<Record<string, string>>) => authenticator.authenticate((name) => headers[name]),
    confirm: (headers: Readonly<Record<string, string>>) => authenticator.confirm((name) => headers[name]),
  };
}

const refusalOf = (work: Promise<unknown>) =>
  work.then(
    () => 'let in',
    (error: unknown) => {
      const { name, status, body, headers } = error as WireError;
      return JSON.stringify({ name, status, body, headers });
    },
  );

describe('callers are authenticated by their keys', () => {
  it.each(['authorization', 'x-api-key', 'api-key'])('in %s', async (name) => {
    const { add, ask } = world();
    const secret = add('k_1');
    const value = name === 'authorization' ? `Bearer ${secret}` : secret;
    expect(await ask({ [name]: value })).toMatchObject({ accountId: 'a_of_k_1', key: { id: 'k_1' } });
  });

  it('whatever the spelling of Bearer', async () => {
    const { add, ask } = world();
    const secret = add('k_1');
    for (const scheme of ['bearer', 'BEARER', 'Bearer  '])
      expect((await ask({ authorization: `${scheme} ${secret}` })).key.id).toBe('k_1');
  });

  it('by the first header with a valid format, so that another bearer token can accompany the key', async () => {
    const { add, ask, asked } = world();
    const [first, second] = [add('k_1'), add('k_2')];
    expect((await ask({ authorization: `Bearer ${first}`, 'x-api-key': second })).key.id).toBe('k_1');
    expect((await ask({ 'x-api-key': first, 'api-key': second })).key.id).toBe('k_1');
    asked.length = 0;
    const beside = { authorization: `Bearer ${generateSecret('bearer')}`, 'x-api-key': second };
    expect((await ask(beside)).key.id).toBe('k_2');
    // The secret of another service is not looked up.
    expect(asked).toEqual([hashSecret(second)]);
    const unknown = { authorization: `Bearer ${generateSecret('gateway')}`, 'api-key': second };
    expect((await ask(unknown)).key.id).toBe('k_2');
  });
});

describe('a caller without a valid key is refused', () => {
  it('with the same fixed error for every reason', async () => {
    const { add, ask } = world();
    const expired = add('k_1', { expiresAt: '2029-12-31T23:59:59.999Z' });
    const revoked = add('k_2', { revokedAt: '2029-06-01T00:00:00.000Z' });
    const senseless = add('k_3', { expiresAt: 'never' });
    const good = add('k_4');
    const tries: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: `Bearer ${expired}` },
      { authorization: `Bearer ${revoked}` },
      { authorization: `Bearer ${senseless}` },
      { authorization: `Bearer ${generateSecret('gateway')}` },
      { authorization: good },
      { authorization: `Basic ${good}` },
      { authorization: `Bearer ${good}x` },
      { authorization: `Bearer ${good} ${good}` },
      { authorization: `Bearer ${good.slice(0, -1)}` },
      { authorization: `Bearer ${good.toUpperCase()}` },
      { 'x-api-key': `Bearer ${good}` },
      { 'x-api-key': `${good}\n` },
      { 'api-key': generateSecret('bearer') },
      { 'x-api-key': 'x'.repeat(1_000_000) },
      { cookie: good },
    ];
    const refusals = await Promise.all(tries.map((headers) => refusalOf(ask(headers))));
    expect([...new Set(refusals)]).toEqual([
      JSON.stringify({
        name: 'WireError',
        status: 401,
        body: {
          message:
            'The API key is missing, unknown, expired, revoked or disabled. Send it as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`.',
          type: 'invalid_request_error',
          param: null,
          code: 'invalid_api_key',
        },
        headers: { 'www-authenticate': 'Bearer' },
      }),
    ]);
  });

  it('on repeated requests too', async () => {
    const { add, ask } = world();
    const revoked = { 'api-key': add('k_1', { revokedAt: '2029-06-01T00:00:00.000Z' }) };
    const unknown = { 'api-key': generateSecret('gateway') };
    const refusals = [];
    for (const headers of [revoked, unknown, revoked, unknown]) refusals.push(await refusalOf(ask(headers)));
    expect(new Set(refusals).size).toBe(1);
    expect(refusals[0]).toContain('401');
  });

  it('with the same number of ledger queries for unknown, revoked and expired keys', async () => {
    const counts = [];
    for (const more of [
      undefined,
      { revokedAt: '2029-06-01T00:00:00.000Z' },
      { expiresAt: '2029-06-01T00:00:00.000Z' },
    ]) {
      const { add, ask, asked } = world();
      const headers = { 'api-key': more === undefined ? generateSecret('gateway') : add('k_1', more) };
      for (let n = 0; n < 5; n++) await refusalOf(ask(headers));
      counts.push(asked.length);
    }
    expect(counts).toEqual([1, 1, 1]);
  });
});

describe('lookups are cached', () => {
  it('for five seconds without a ledger query', async () => {
    const { add, ask, asked, clock } = world();
    const headers = { 'api-key': add('k_1') };
    for (let n = 0; n < 10; n++) await ask(headers);
    clock.pass(4999);
    await ask(headers);
    expect(asked).toHaveLength(1);
    clock.pass(1);
    await ask(headers);
    expect(asked).toHaveLength(2);
  });

  it('but not longer, so that a revoked key stops working', async () => {
    const { add, ask, change, clock } = world();
    const secret = add('k_1');
    await ask({ 'api-key': secret });
    change(secret, { revokedAt: '2030-01-01T00:00:00.000Z' });
    // It is in constant use: reads do not extend its lifetime.
    for (let n = 0; n < 5; n++) {
      clock.pass(1000);
      if (n < 4) await ask({ 'api-key': secret });
    }
    expect(await refusalOf(ask({ 'api-key': secret }))).toContain('401');
  });

  it('and not used by `confirm`, which also removes a revoked key from the cache', async () => {
    const { add, ask, confirm, change, asked } = world();
    const secret = add('k_1');
    const headers = { 'api-key': secret };
    await ask(headers);
    expect((await confirm(headers)).key.id).toBe('k_1');
    expect(asked).toHaveLength(2);
    change(secret, { revokedAt: '2030-01-01T00:00:00.000Z' });
    expect((await ask(headers)).key.id).toBe('k_1');
    expect(await refusalOf(confirm(headers))).toContain('401');
    expect(await refusalOf(ask(headers))).toContain('401');
    expect(asked).toHaveLength(3);
  });

  it('and a cached key still expires to the millisecond', async () => {
    const { add, ask, clock } = world();
    const headers = { 'api-key': add('k_1', { expiresAt: '2030-01-01T00:00:01.000Z' }) };
    clock.pass(999);
    expect((await ask(headers)).key.id).toBe('k_1');
    clock.pass(1);
    expect(await refusalOf(ask(headers))).toContain('401');
  });

  it('for one second if the key is unknown, so that a new key soon works', async () => {
    const { ask, clock, ledger } = world();
    const secret = generateSecret('gateway');
    expect(await refusalOf(ask({ 'api-key': secret }))).toContain('401');
    ledger.findKey = () => Promise.resolve(row('k_new'));
    clock.pass(999);
    expect(await refusalOf(ask({ 'api-key': secret }))).toContain('401');
    clock.pass(1);
    expect((await ask({ 'api-key': secret })).key.id).toBe('k_new');
  });

  it('with one query for concurrent requests', async () => {
    const { add, ask, asked } = world();
    const headers = { 'api-key': add('k_1') };
    await Promise.all(Array.from({ length: 50 }, () => ask(headers)));
    expect(asked).toHaveLength(1);
  });

  it('unless they fail: the error passes through, and the next request queries again', async () => {
    const { add, ask, ledger } = world();
    const headers = { 'api-key': add('k_1') };
    const { findKey } = ledger;
    ledger.findKey = () => Promise.reject(new Error('the database is away'));
    await expect(ask(headers)).rejects.toThrow('the database is away');
    ledger.findKey = findKey;
    expect((await ask(headers)).key.id).toBe('k_1');
  });

  it('and a flood of invented keys evicts no valid key', async () => {
    const { add, ask, asked } = world();
    const headers = { 'api-key': add('k_1') };
    await ask(headers);
    for (let n = 0; n < 12_000; n++) await refusalOf(ask({ 'api-key': generateSecret('gateway') }));
    asked.length = 0;
    await ask(headers);
    expect(asked).toEqual([]);
  });
});

describe('the cache', () => {
  it('is bounded and keeps the most recently used entries', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.array(
          fc.record({
            set: fc.boolean(),
            key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g'),
            pass: fc.nat(4),
          }),
          {
            maxLength: 60,
          },
        ),
        (capacity, acts) => {
          const clock = new ManualClock();
          const memory = createExpiringCache<number>(capacity, 10, clock.monotonic);
          // Oldest first, with its expiry time.
          let model: { key: string; value: number; until: number }[] = [];
          for (const [value, { set, key, pass }] of acts.entries()) {
            clock.pass(pass);
            const known = model.find((one) => one.key === key);
            if (set) {
              model = [
                ...model.filter((one) => one !== known),
                { key, value, until: clock.monotonic() + 10 },
              ];
              model = model.slice(-capacity);
              memory.set(key, value);
            } else {
              const fresh = known !== undefined && known.until > clock.monotonic() ? known : undefined;
              model = [...model.filter((one) => one !== known), ...(fresh ? [fresh] : [])];
              expect(memory.get(key)).toBe(fresh?.value);
            }
            expect(memory.size).toBe(model.length);
          }
        },
      ),
    );
  });
});

describeDatabases('with the ledger itself', (url) => {
  it('a key works from its creation until it is revoked, and is never stored in clear text', async () => {
    const database = await AccessWorld.open(await url());
    const { store, clock } = database;
    const ledger = await openLedger({ store });
    const authenticator = createAuthenticator({ ledger, monotonicMs: clock.monotonic });
    const { id: account } = await ledger.createAccount('ours', {});
    const { row: made, secret } = await ledger.createKey({ account, label: 'test' });
    const asked = () => authenticator.authenticate((name) => (name === 'x-api-key' ? secret : undefined));
    expect(await asked()).toEqual({ accountId: account, key: made });
    const dump = await database.dump();
    expect(dump).toContain(hashSecret(secret));
    for (const part of [secret, secret.slice(14, 22), secret.slice(-8)]) expect(dump).not.toContain(part);
    await ledger.revokeKey(made.id);
    clock.pass(5000);
    expect(await refusalOf(asked())).toContain('401');
    await ledger.close();
    await store.close();
  });
});
