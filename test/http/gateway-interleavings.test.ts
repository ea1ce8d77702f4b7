/** Random interleavings of what callers, providers, operators and gateways do: what is always so with the money. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { openGateway } from '../../src/gateway/open.ts';
import { listen } from '../../src/gateway/serve/listen.ts';
import { describeDatabases } from '../support/databases.ts';
import { pairs, wires } from '../support/gateway/asks.ts';
import { type FakeProvider, fakeProvider, type ProviderReply } from '../support/gateway/provider.ts';
import {
  ask,
  type Customer,
  configOf,
  customerOf,
  nanoOf,
  soldAt,
  Witness,
} from '../support/gateway/world.ts';
import { ledgerOn } from '../support/ledger.ts';
import { createSpanRecorder } from '../support/span-recorder.ts';

const usage = { input: 40, output: 25, cacheRead: 15 };
const cost = nanoOf({ fresh: 25, cacheRead: 15, output: 25 });
const say = { text: 'One two three four five six.', usage };
const soon = { 'retry-after-ms': '0' };
const replies = {
  well: { say },
  cut: { say, cutAfter: 3 },
  ended: { say, endAfter: 3 },
  silent: { say: { text: say.text, usageAt: 'missing' } },
  ill: { status: 500, headers: soon },
  unwilling: { status: 400 },
} as const satisfies Record<string, ProviderReply>;

type Step =
  | {
      readonly do: 'ask';
      readonly who: number;
      readonly at: number;
      readonly pair: number;
      readonly stream: boolean;
      readonly reply: keyof typeof replies;
      /** From a small range, so that some keys repeat. */
      readonly key: number | undefined;
    }
  | { readonly do: 'go on' | 'leave'; readonly which: number }
  | { readonly do: 'stop'; readonly at: number }
  | { readonly do: 'credit'; readonly who: number; readonly amount: number }
  | { readonly do: 'look' };

const two = fc.nat({ max: 1 });
const asking = fc.record({
  do: fc.constant('ask' as const),
  who: two,
  at: two,
  pair: fc.nat({ max: pairs.length - 1 }),
  stream: fc.boolean(),
  reply: fc.constantFrom(
    ...(['well', 'well', 'well', 'cut', 'ended', 'silent', 'ill', 'unwilling'] as const),
  ),
  key: fc.option(fc.nat({ max: 5 }), { nil: undefined }),
});
const underKey: readonly Partial<Extract<Step, { do: 'ask' }>>[] = [
  { pair: 0, stream: false, reply: 'well' },
  { pair: 0, stream: true, reply: 'well' },
  { pair: 6, stream: true, reply: 'well' },
  { pair: 8, stream: true, reply: 'cut' },
  { pair: 3, stream: false, reply: 'ill' },
  // Any status; mostly a conflict.
  {},
];
/** The same idempotency key always has the same request. */
const keyed = asking.map((step) => (step.key === undefined ? step : { ...step, ...underKey[step.key] }));
const steps = fc.array(
  fc.oneof(
    { arbitrary: keyed, weight: 6 },
    { arbitrary: fc.record({ do: fc.constant('go on' as const), which: fc.nat() }), weight: 5 },
    { arbitrary: fc.record({ do: fc.constant('leave' as const), which: fc.nat() }), weight: 1 },
    { arbitrary: fc.record({ do: fc.constant('stop' as const), at: two }), weight: 1 },
    {
      arbitrary: fc.record({
        do: fc.constant('credit' as const),
        who: two,
        amount: fc.integer({ min: -100_000, max: 500_000 }).filter((amount) => amount !== 0),
      }),
      weight: 1,
    },
    { arbitrary: fc.record({ do: fc.constant('look' as const) }), weight: 1 },
  ),
  { minLength: 5, maxLength: 40 },
);

/** Room for some three requests at once. */
const credit = 1_300_000n;

interface SentRequest {
  readonly who: number;
  readonly reply: keyof typeof replies;
  readonly key: string | undefined;
  readonly leave: () => void;
  readonly answer: Promise<{ response: Response; text: string } | undefined>;
}

class World {
  readonly #database: string;
  readonly provider: FakeProvider;
  readonly witness: Witness;
  readonly customers: Customer[] = [];
  readonly credits = [credit, credit];
  readonly requests: SentRequest[] = [];
  readonly seen = createSpanRecorder();
  #waiting: (() => void)[] = [];
  #open = false;
  readonly #gateways: Awaited<ReturnType<World['gateway']>>[] = [];

  private constructor(database: string, provider: FakeProvider, witness: Witness) {
    this.#database = database;
    this.provider = provider;
    this.witness = witness;
  }

  static async open(database: string): Promise<World> {
    const world = new World(database, await fakeProvider(), new Witness(await ledgerOn(database)));
    world.provider.script(async ({ text }) => {
      if (!world.#open) await new Promise<void>((resolve) => world.#waiting.push(resolve));
      return replies[/reply:(\w+)/.exec(text)?.[1] as keyof typeof replies];
    });
    for (let at = 0; at < 2; at++) {
      world.#gateways.push(await world.gateway());
      world.customers.push(await customerOf(world.witness.books, { credit }));
    }
    return world;
  }

  async gateway() {
    const config = configOf(soldAt(this.provider), { retries: 1, drainSecs: 3 });
    const none = () => undefined;
    const gateway = await openGateway({
      config,
      database: this.#database,
      tracer: this.seen.tracer,
      onFault: none,
      onNotice: none,
    });
    const listener = await listen(gateway.app, { host: '127.0.0.1', port: 0 });
    return {
      url: `http://127.0.0.1:${listener.port}`,
      async stop() {
        const closed = listener.close();
        await gateway.close(0);
        listener.destroyConnections();
        await closed;
      },
      /** Ends when all that came in is settled: a caller that left may have asked, though nothing is held for it yet. */
      async over() {
        await listener.close();
        await gateway.close(600_000);
      },
    };
  }

  async do(step: Step): Promise<void> {
    switch (step.do) {
      case 'ask':
        return this.#ask(step);
      case 'go on':
        this.#waiting.splice(step.which % Math.max(1, this.#waiting.length), 1)[0]?.();
        break;
      case 'leave':
        this.requests[step.which % Math.max(1, this.requests.length)]?.leave();
        break;
      case 'stop': {
        const next = this.gateway();
        await this.#gateways[step.at]?.stop();
        this.#gateways[step.at] = await next;
        break;
      }
      case 'credit': {
        const { accountId = '' } = this.customers[step.who] ?? {};
        const given = await this.witness.books.ledger.credit(accountId, BigInt(step.amount)).then(
          () => BigInt(step.amount),
          // More than is free cannot be taken.
          () => 0n,
        );
        this.credits[step.who] = (this.credits[step.who] ?? 0n) + given;
        break;
      }
      case 'look':
        expect((await this.witness.books.ledger.audit()).faults).toEqual([]);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }

  #ask({ who, at, pair, stream, reply, key }: Extract<Step, { do: 'ask' }>): void {
    const [wire, model] = pairs[pair] ?? ['chat', 'chat'];
    const customer = this.customers[who];
    const gateway = this.#gateways[at];
    if (!customer || !gateway) throw new Error('no customer to send the request');
    const { path, body } = wires[wire];
    const headers = key === undefined ? {} : { 'idempotency-key': `key-${key}` };
    const leaving = new AbortController();
    const answer = ask(gateway.url, path, {
      customer,
      body: body(model, stream, `reply:${reply}`),
      headers,
      signal: leaving.signal,
    }).then(
      async (response) => ({ response, text: await response.text() }),
      () => undefined,
    );
    answer.catch(() => undefined);
    this.requests.push({
      who,
      reply,
      key: key === undefined ? undefined : `${who} key-${key}`,
      leave: () => leaving.abort(),
      answer: answer.catch(() => undefined),
    });
  }

  /** Waits until every request has ended. */
  async over(): Promise<void> {
    this.#open = true;
    for (const goOn of this.#waiting.splice(0)) goOn();
    await Promise.all(this.requests.map(({ answer }) => answer));
    await Promise.all(this.#gateways.splice(0).map((gateway) => gateway.over()));
    await expect.poll(() => this.witness.openHolds()).toBe(0);
  }

  async close(): Promise<void> {
    this.#open = true;
    for (const goOn of this.#waiting.splice(0)) goOn();
    await Promise.all(this.#gateways.map((gateway) => gateway.stop()));
    await this.witness.books.close();
    await this.provider.close();
  }
}

/** Every request has one span, which agrees with the ledger. */
async function expectSpans({ seen, witness }: World): Promise<void> {
  await expect.poll(() => seen.ended.length).toBe(seen.started.length);
  seen.expectAllEnded();
  const rows = new Map((await witness.rows()).map((row) => [row.id, row]));
  for (const { id, attributes: facts, result: ending } of seen.spansOf('gateway')) {
    const row = rows.get(id);
    expect(facts.costNanousd ?? 0n).toBe(row?.charged ?? 0n);
    if (!row) continue;
    expect(facts).toMatchObject({ wire: row.wire, keyId: row.key_id, accountId: row.account_id });
    if (row.outcome === 'client_gone') expect(ending?.outcome).toBe('abandoned');
    if (row.outcome === 'failed') expect(['failed', 'refused']).toContain(ending?.outcome);
    if (ending?.outcome === 'ok')
      expect(row).toMatchObject({ outcome: 'completed', provider: facts.provider });
  }
}

async function expectSound({ witness, requests, customers, credits }: World): Promise<void> {
  expect(await witness.faults()).toEqual([]);
  const rows = await witness.rows();
  const byId = new Map(rows.map((row) => [row.id, row]));
  for (const [who, { accountId }] of customers.entries()) {
    const own = rows.filter(({ account_id }) => account_id === accountId);
    const spent = own.reduce((sum, { charged }) => sum + charged, 0n);
    const { remaining } = await witness.books.ledger.balance(accountId);
    expect(remaining).toBe((credits[who] ?? 0n) - spent);
    expect(remaining >= 0n).toBe(true);
    const paid = own.filter(({ charged, idempotency_key: key }) => charged > 0n && key !== null);
    expect(new Set(paid.map(({ idempotency_key: key }) => key)).size, 'billed once for a key').toBe(
      paid.length,
    );
  }
  for (const row of rows) if (row.ended !== 'settled') expect(row.charged).toBe(0n);
  for (const { reply, answer } of requests) {
    const got = await answer;
    if (!got) continue;
    const { response, text } = got;
    const row = byId.get(response.headers.get('x-svc-request-id') ?? '');
    const header = response.headers.get('x-svc-cost-nanousd');
    if (header !== null) expect(BigInt(header), text).toBe(row?.charged ?? 0n);
    if (response.status !== 200) {
      expect(header, text).toBe('0');
      continue;
    }
    expect(row, text).toBeDefined();
    if (reply === 'well' && row?.outcome === 'completed') expect(row.charged).toBe(cost);
    if ((reply === 'cut' || reply === 'ended') && row?.outcome === 'failed') expect(row.charged).toBe(0n);
    if (reply === 'silent' && row?.outcome === 'completed') expect(row.charged > 0n).toBe(true);
  }
  const answers = Map.groupBy(
    (await Promise.all(requests.map(async ({ key, answer }) => ({ key, got: await answer })))).filter(
      ({ key, got }) => key !== undefined && got?.response.status === 200 && !/error/.test(got.text),
    ),
    ({ key }) => key,
  );
  for (const same of answers.values())
    expect(new Set(same.map(({ got }) => got?.text)).size, 'one answer for a key').toBe(1);
}

describeDatabases('random interleavings over two gateways', (url) => {
  it('keep the ledger consistent, bill once, and report what was billed', async () => {
    const database = await url();
    await fc.assert(
      fc.asyncProperty(steps, async (taken) => {
        // Others' requests of earlier runs stay in the same books.
        const world = await World.open(database);
        try {
          for (const step of taken) await world.do(step);
          await world.over();
          await expectSound(world);
          await expectSpans(world);
        } finally {
          await world.close();
        }
      }),
      { numRuns: Number(process.env['LATHE_TEST_RUNS'] ?? 12), endOnFailure: true },
    );
  });
});
