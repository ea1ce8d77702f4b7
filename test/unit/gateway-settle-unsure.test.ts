import { afterAll, expect, it } from 'vitest';
import { TagLimiter } from '../../src/gateway/usage/tags.ts';
import { createAuthenticator } from '../../src/gateway/access/authenticator.ts';
import { Credentials } from '../../src/gateway/access/credentials.ts';
import { createMemoryLimiter } from '../../src/gateway/access/memory-limiter.ts';
import { ResponseCache } from '../../src/gateway/cache/response-cache.ts';
import { Catalog } from '../../src/gateway/catalog/catalog.ts';
import type { Ledger } from '../../src/gateway/ledger/types.ts';
import { createGatewayApp } from '../../src/gateway/serve/app.ts';
import { BodyMemoryLimiter } from '../../src/gateway/serve/body-memory-limiter.ts';
import { UpstreamDrains } from '../../src/gateway/serve/upstream-drains.ts';
import { InFlight } from '../../src/gateway/serve/in-flight.ts';
import { UpstreamRouter } from '../../src/gateway/upstream/router.ts';
import { UndiciTransport } from '../../src/gateway/upstream/transport.ts';
import { StoreError } from '../../src/store/index.ts';
import { freshSqlite } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { fakeProvider } from '../support/gateway/provider.ts';
import { configOf, customerOf, nanoOf, soldAt, Witness } from '../support/gateway/world.ts';
import { ledgerOn } from '../support/ledger.ts';
import { createSpanRecorder } from '../support/span-recorder.ts';

const undo: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const cost = nanoOf({ fresh: 11, output: 7 });
const unsure = () => new StoreError('storage_unsure', 'the connection was lost while it was saving');

/** A gateway whose ledger uses the given `settle` and `syncHolds`. */
async function gatewayWith(
  settle: (real: Ledger) => Ledger['settle'],
  stream = false,
  syncHolds?: Ledger['syncHolds'],
  isCached = false,
) {
  const seen = createSpanRecorder();
  const provider = await fakeProvider([{ say: { text: 'Yes.', usage: { input: 11, output: 7 } } }]);
  const books = await ledgerOn(freshSqlite());
  const { ledger: real, store } = books;
  const ledger: Ledger = Object.assign(
    Object.fromEntries(
      (['reserve', 'syncHolds', 'release', 'recordRefusal', 'findClaim', 'findKey'] as const).map((name) => [
        name,
        (real[name] as (...given: unknown[]) => unknown).bind(real),
      ]),
    ) as unknown as Ledger,
    { settle: settle(real), ...(syncHolds ? { syncHolds } : {}) },
  );
  const uncached = configOf(soldAt(provider));
  const policy = { use: 'always', ttlSecs: 60, hitPrice: { nanodollars: 5n } } as const;
  const config = isCached
    ? { ...uncached, models: uncached.models.map((model) => ({ ...model, cache: policy })) }
    : uncached;
  const bounds = { maxEntries: 10, maxBytes: 10_000 };
  const cache = new ResponseCache({
    store,
    bounds: () => (isCached ? bounds : undefined),
    onFault: () => undefined,
  });
  const transport = new UndiciTransport();
  undo.push(async () => {
    await transport.close();
    await books.close();
    await provider.close();
  });
  const app = createGatewayApp({
    catalog: new Catalog(config),
    ledger,
    cache,
    authenticator: createAuthenticator({ ledger: real }),
    limiter: createMemoryLimiter(config.limits),
    credentials: new Credentials({
      store,
      byok: [],
      masterKeys: [],
      probe: () => Promise.reject(new Error()),
    }),
    transport,
    router: new UpstreamRouter({ limits: config.limits }),
    limits: config.limits,
    hooks: () => [],
    servesMessagesOfAll: () => false,
    tags: new TagLimiter(),
    bodyMemory: new BodyMemoryLimiter(config.limits.maxBodyBytes),
    inFlight: new InFlight(),
    upstreamDrains: new UpstreamDrains(),
    tracer: seen.tracer,
    observer: {},
    stallTimeoutMs: 600_000,
    checkReady: () => Promise.resolve(),
    onFault: () => undefined,
  });
  const witness = new Witness(books);
  const { secret } = await customerOf(books);
  const { path, body } = wires.chat;
  const send = async () =>
    app.request(path, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body('chat', stream)),
    });
  if (isCached) {
    await (await send()).text();
    await cache.close();
    await expect.poll(() => seen.ended.length).toBe(1);
    seen.ended.length = 0;
  }
  const response = await send();
  const text = await response.text();
  const row = await witness.row(response.headers.get('x-svc-request-id') ?? '');
  expect(await witness.faults()).toEqual([]);
  await expect.poll(() => seen.ended.length).toBe(1);
  const [span] = seen.spansOf('gateway');
  return {
    response,
    text,
    row,
    cost: BigInt(response.headers.get('x-svc-cost-nanousd') ?? '-1'),
    span: { cost: span?.attributes.costNanousd, ...span?.result },
  };
}

it('returns the answer when the settlement was saved, although its outcome was unknown at first', async () => {
  const given = await gatewayWith((real) => async (id, settlement) => {
    await real.settle(id, settlement);
    throw unsure();
  });
  expect(given.response.status).toBe(200);
  expect(given.cost).toBe(cost);
  expect(given.row.charged).toBe(cost);
  expect(given.span).toEqual({ cost, outcome: 'ok', status: 200 });
});

it('returns a stored answer likewise', async () => {
  let calls = 0;
  const settleTwice =
    (real: Ledger): Ledger['settle'] =>
    async (id, settlement) => {
      const settled = await real.settle(id, settlement);
      if ((calls += 1) === 2) throw unsure();
      return settled;
    };
  const given = await gatewayWith(settleTwice, false, undefined, true);
  expect(given.response.status).toBe(200);
  expect(given.response.headers.get('x-svc-receipt-reason')).toBe('cached');
  expect([given.cost, given.row.charged]).toEqual([5n, 5n]);
});

it('charges nothing when it returns no answer', async () => {
  const given = await gatewayWith(() => () => Promise.reject(unsure()));
  expect(given.response.status).toBe(503);
  expect(given.cost).toBe(0n);
  expect(given.row).toMatchObject({ ended: 'released', charged: 0n });
  expect(given.span).toEqual({ cost: 0n, outcome: 'failed', status: 503, code: 'storage_unsure' });
});

it('charges nothing when a stream ends with an internal error', async () => {
  const given = await gatewayWith(() => () => Promise.reject(unsure()), true);
  expect(given.response.status).toBe(200);
  expect(given.text).toContain('storage_unsure');
  expect(given.row).toMatchObject({ ended: 'released', charged: 0n });
  expect(given.span).toEqual({ cost: 0n, outcome: 'failed', status: 200, code: 'storage_unsure' });
});

it('reports the charged amount when another gateway considered it dead and settled first', async () => {
  const given = await gatewayWith((real) => async (id, settlement) => {
    await real.settle(id, {
      ...settlement,
      cost: { total: 5n, components: { fresh: 5n, cache_write: 0n, cache_read: 0n, output: 0n } },
    });
    return await real.settle(id, settlement);
  });
  expect(given.response.status).toBe(200);
  expect(given.cost).toBe(5n);
  expect(given.row.charged).toBe(5n);
  expect(given.span).toEqual({ cost: 5n, outcome: 'ok', status: 200 });
});

it('sends nothing of a stream whose hold cannot be synced to the disk, and charges nothing', async () => {
  const given = await gatewayWith(
    (real) => real.settle.bind(real),
    true,
    () => Promise.reject(unsure()),
  );
  expect(given.response.status).toBe(503);
  expect(given.text).not.toContain('Yes.');
  expect(given.text).toContain('storage_unsure');
  expect(given.row).toMatchObject({ ended: 'released', charged: 0n });
});
