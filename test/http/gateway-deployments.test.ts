/** A model with several deployments, over HTTP: who answers, what it costs, and what the file changes while it runs. */
import { afterEach, describe, expect, it } from 'vitest';
import { GatewayFile } from '../../src/gateway/config/gateway-file.ts';
import { openGateway } from '../../src/gateway/open.ts';
import { listen } from '../../src/gateway/serve/listen.ts';
import { GatewayMetrics } from '../../src/telemetry/gateway-metrics.ts';
import { combineObservers, Tracer } from '../../src/tracing/index.ts';
import type { WireKind } from '../../src/wires/providers.ts';
import { freshSqlite } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { type FakeProvider, fakeProvider, type ProviderScript } from '../support/gateway/provider.ts';
import { ask, customerOf, nanoOf, Witness } from '../support/gateway/world.ts';
import { ledgerOn } from '../support/ledger.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const tokens = { fresh: 100, output: 50 };
const say = { text: 'An answer.', usage: { input: tokens.fresh, output: tokens.output } };
const card = (price: number) => ({ in_usd_per_mtok: `${price}`, out_usd_per_mtok: `${4 * price}` });
const cardText = (price: number) =>
  Object.entries(card(price))
    .map(([name, text]) => `${name} = "${text}"`)
    .join('\n');

interface Place {
  readonly script?: ProviderScript;
  readonly wire?: WireKind;
  /** Dollars per million input tokens; default: the model's, 1. */
  readonly price?: number;
  /** Further lines of the deployment. */
  readonly more?: string;
}
type Places = Readonly<Record<string, Place>>;

/** @param settings lines of the model */
const fileOf = (
  providers: ReadonlyMap<string, FakeProvider>,
  places: Places,
  {
    settings = '',
    end = '',
    retries = 0,
    drainSecs = 60,
  }: { settings?: string; end?: string; retries?: number; drainSecs?: number } = {},
) => `${Object.entries(places)
  .map(
    ([id, { wire = 'openai-chat' }]) => `[[providers]]
id = "${id}"
wire = "${wire}"
base_url = "${providers.get(id)?.baseUrl(wire)}"
`,
  )
  .join('')}
[[models]]
id = "chat"
family = "openai"
caps = ["chat"]
context_window = 100_000
max_output_tokens = 8_000
${cardText(1)}
${settings}
${Object.entries(places)
  .map(
    ([id, { price, more = '' }]) => `[[models.deployments]]
provider = "${id}"
${price === undefined ? '' : cardText(price)}
${more}
`,
  )
  .join('')}
[[models]]
id = "spare"
provider = "${Object.keys(places).at(-1)}"
family = "openai"
caps = ["chat"]
context_window = 100_000
max_output_tokens = 8_000
${cardText(9)}
${end}
[limits]
retries = ${retries}
drain_secs = ${drainSecs}
breaker_failures = 1000
`;

/** A gateway in this process with a provider for each deployment of the model `chat`. */
async function world(places: Places, options?: Parameters<typeof fileOf>[2]) {
  const providers = new Map<string, FakeProvider>();
  for (const [id, { script = [{ say }] }] of Object.entries(places)) {
    const provider = await fakeProvider(script);
    providers.set(id, provider);
    undo.push(() => provider.close());
  }
  const database = freshSqlite();
  let source = fileOf(providers, places, options);
  const readConfig = () => new GatewayFile(source, { name: 'gateway.toml', folder: '/', env: {} }).config();
  const notices: string[] = [];
  const faults: unknown[] = [];
  const metrics = new GatewayMetrics();
  const gateway = await openGateway({
    config: await readConfig(),
    readConfig,
    database,
    tracer: new Tracer([metrics]),
    observer: combineObservers([metrics]),
    onFault: (where, error) => faults.push([where, error]),
    onNotice: (message) => notices.push(message),
  });
  const listener = await listen(gateway.app, { host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${listener.port}`;
  const witness = new Witness(await ledgerOn(database));
  undo.push(async () => {
    expect([await witness.faults(), faults]).toEqual([[], []]);
    const closed = listener.close();
    await gateway.close(0);
    listener.destroyConnections();
    await closed;
    await witness.books.close();
  });
  const usual = await customerOf(witness.books);

  /** One request. @returns the receipt, and the row in the ledger */
  const send = async ({
    customer = usual,
    model = 'chat',
    wire = 'chat',
    stream = false,
    content,
    headers = {},
  }: {
    customer?: typeof usual;
    model?: string;
    wire?: 'chat' | 'messages';
    stream?: boolean;
    content?: string;
    headers?: Record<string, string>;
  } = {}) => {
    const { path, body } = wires[wire];
    const response = await ask(url, path, { customer, body: body(model, stream, content), headers });
    const text = await response.text();
    const header = (name: string) => response.headers.get(`x-svc-${name}`);
    const row = await witness.row(header('request-id') ?? '');
    expect(header('provider')).toBe(row.provider);
    expect(header('effective-model')).toBe(row.effective_model);
    return { status: response.status, text, header, row, provider: row.provider };
  };
  const requestsOf = () =>
    Object.fromEntries([...providers].map(([id, { requests }]) => [id, requests.length]));
  const familyOf = (name: string) => metrics.families(gateway.state()).find((family) => family.name === name);
  return {
    providers,
    witness,
    url,
    gateway,
    notices,
    usual,
    send,
    requestsOf,
    familyOf,
    metricsOf: (name: string) => familyOf(name)?.samples ?? [],
    customer: (credit: bigint) => customerOf(witness.books, { credit }),
    reload: async (next: Places, nextOptions?: Parameters<typeof fileOf>[2]) => {
      source = fileOf(providers, next, nextOptions);
      return await gateway.reload?.();
    },
  };
}

/** Counts the answers by provider, and those that were none. */
const tally = (answers: readonly { status: number; provider: string }[]) => {
  const counts: Record<string, number> = {};
  for (const { status, provider } of answers) {
    const name = status === 200 ? provider : `${status}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
};

describe('three deployments: a slow one, one that fails, and one with a rate limit', () => {
  const count = 24;
  const allowed = 5;
  /** A provider that answers some requests and then asks to be left alone. */
  const limited: ProviderScript = (_, index) =>
    index < allowed ? { say } : { status: 429, headers: { 'retry-after': '600' } };
  const prices = { limited: 1, failing: 2, slow: 3 };
  const scripts: Readonly<Record<keyof typeof prices, ProviderScript>> = {
    limited,
    failing: [{ status: 500 }],
    slow: [{ say, delayMs: 40 }],
  };
  const placesOf = (names: readonly (keyof typeof prices)[], more: (name: string) => string): Places =>
    Object.fromEntries(
      names.map((name) => [name, { script: scripts[name], price: prices[name], more: more(name) }]),
    );
  const simulate = async (
    names: readonly (keyof typeof prices)[],
    settings = '',
    more: (name: string) => string = () => '',
  ) => {
    const { send, requestsOf } = await world(placesOf(names, more), { settings });
    const answers = [];
    for (let n = 0; n < count; n += 1)
      answers.push(await send({ stream: n % 2 === 1, content: `Question ${n}` }));
    for (const { status, provider, row, header } of answers) {
      if (status !== 200) continue;
      const cost = nanoOf(tokens, card(prices[provider as keyof typeof prices]));
      // By the prices of the deployment that answered; the hold covered them.
      expect(row).toMatchObject({ cost, charged: cost, overrun: 0n, reason: 'as_requested' });
      expect(header('receipt-reason')).toBe('as_requested');
    }
    return { counts: tally(answers), requests: requestsOf() };
  };

  it('alone answer as well as they can', async () => {
    expect((await simulate(['slow'])).counts).toEqual({ slow: count });
    expect((await simulate(['failing'])).counts).toEqual({ 502: count });
    expect((await simulate(['limited'])).counts).toEqual({ limited: allowed, 429: count - allowed });
  });

  const all = ['limited', 'failing', 'slow'] as const;
  const order = (name: string) => `priority = ${all.indexOf(name as never) + 1}`;
  it.each([
    ['priority', '', order],
    ['weighted', 'routing = "weighted"', undefined],
    ['weighted and sticky', 'routing = "weighted"\nsticky = true', undefined],
    ['least latency', 'routing = "least_latency"', undefined],
    ['least cost', 'routing = "least_cost"', undefined],
  ] as const)('together answer every request: by %s', async (name, settings, more) => {
    const { counts, requests } = await simulate(all, settings, more);
    const { limited: quick = 0, slow = 0 } = counts;
    expect(quick + slow).toBe(count);
    expect(quick).toBeLessThanOrEqual(allowed);
    // The one that fails is spared after each failure, for longer each time, and so is the one that asks for it.
    expect(requests['failing']).toBeLessThanOrEqual(8);
    expect(requests['limited']).toBeLessThanOrEqual(allowed + 1);
    if (['priority', 'least cost'].includes(name)) expect(quick).toBe(allowed);
  });
});

describe('a sticky model', () => {
  it('serves a prompt at the same deployment while it is up, and moves only its prompts when it is removed', async () => {
    const places: Places = { a: {}, b: {}, c: {} };
    const settings = 'sticky = true';
    const { send, reload, providers } = await world(places, { settings });
    const contents = Array.from({ length: 12 }, (_, n) => `You are assistant ${n}.`);
    const homes = async () => {
      const found: string[] = [];
      for (const content of contents) found.push((await send({ content })).provider);
      return found;
    };
    const before = await homes();
    expect(new Set(before).size).toBe(3);
    expect(await homes()).toEqual(before);
    // A failure moves its prompts, and those alone.
    providers.get('b')?.script([{ status: 500 }]);
    const during = await homes();
    for (const [index, home] of before.entries())
      if (home === 'b') expect(during[index]).not.toBe('b');
      else expect(during[index]).toBe(home);
    providers.get('b')?.script([{ say }]);
    expect(await reload({ a: {}, c: {} }, { settings })).toMatchObject({ outcome: 'replaced' });
    const after = await homes();
    for (const [index, home] of before.entries())
      if (home !== 'b') expect(after[index]).toBe(home);
      else expect(after[index]).toBe(during[index]);
  });
});

describe('the money of deployments', () => {
  const dear = { dear: { price: 8, more: 'priority = 1' }, cheap: { price: 2, more: 'priority = 2' } };

  it('is held for the dearest that may be used, and charged by the one that answers', async () => {
    const held = Promise.withResolvers<void>();
    const { providers, send, witness } = await world(dear);
    providers.get('dear')?.script([{ status: 429 }]);
    providers.get('cheap')?.script([{ say, hold: () => held.promise }]);
    const streaming = send({ stream: true });
    await expect.poll(() => providers.get('cheap')?.open).toBe(1);
    const [hold] = await witness.books.store.read((db) =>
      db.selectFrom('gateway_holds').selectAll().execute(),
    );
    // At least the 200 tokens of the answer, at the price of the first.
    expect(hold?.amount).toBeGreaterThan(nanoOf({ output: 200 }, card(8)));
    held.resolve();
    const { row, provider } = await streaming;
    expect(provider).toBe('cheap');
    const cost = nanoOf(tokens, card(2));
    expect(row).toMatchObject({ cost, charged: cost, overrun: 0n, reason: 'as_requested' });
  });

  it('allows the deployments that a ceiling or a balance covers, and refuses when none is', async () => {
    const { send, customer, requestsOf } = await world(dear);
    const refused = await send({ headers: { 'x-svc-max-cost-nanousd': '1' } });
    expect(refused.status).toBe(402);
    const least = /could cost (\d+) nanodollars/.exec(refused.text)?.[1] ?? '';
    const ceiling = await send({ headers: { 'x-svc-max-cost-nanousd': least } });
    expect([ceiling.status, ceiling.provider]).toEqual([200, 'cheap']);
    const poor = await send({ customer: await customer(BigInt(least)) });
    expect([poor.status, poor.provider]).toEqual([200, 'cheap']);
    const poorer = await send({ customer: await customer(BigInt(least) - 1n) });
    expect(poorer.status).toBe(402);
    expect(poorer.text).toContain(`could cost ${least} nanodollars`);
    expect(requestsOf()).toEqual({ dear: 0, cheap: 2 });
    expect((await send()).provider).toBe('dear');
  });

  it('adds up in the ledger under concurrent requests that fail and succeed', async () => {
    let count = 0;
    const flaky: ProviderScript = () => (count++ % 3 === 0 ? { status: 503 } : { say });
    const { send, witness, metricsOf } = await world(
      { a: { script: flaky, price: 3 }, b: { script: flaky, price: 5 }, c: { price: 7 } },
      { settings: 'routing = "weighted"' },
    );
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, n) => send({ stream: n % 2 === 0, content: `Question ${n}` })),
    );
    const priceOf: Record<string, number> = { a: 3, b: 5, c: 7 };
    let paid = 0n;
    const paidAt: Record<string, number> = {};
    for (const { status, row, provider } of answers) {
      expect(status).toBe(200);
      expect(row.charged).toBe(nanoOf(tokens, card(priceOf[provider] ?? 0)));
      expect(row.overrun).toBe(0n);
      paid += row.charged;
      paidAt[provider] = (paidAt[provider] ?? 0) + Number(row.charged);
    }
    const entries = await witness.books.store.read((db) =>
      db.selectFrom('gateway_entries').selectAll().execute(),
    );
    expect(entries.reduce((sum, { amount }) => sum + amount, 0n)).toBe(0n);
    const revenue = entries.filter(({ account_id }) => account_id === 'revenue');
    expect(revenue.reduce((sum, { amount }) => sum + amount, 0n)).toBe(paid);
    // The metrics name the provider that answered, and the model.
    const metered = metricsOf('lathe_gateway_cost_nanousd_total').map(({ labels, value }) => [
      `${labels?.['model']} of ${labels?.['provider']}`,
      Number(value),
    ]);
    const charged = Object.entries(paidAt).map(([id, amount]) => [`chat of ${id}`, amount]);
    expect(Object.fromEntries(metered)).toEqual(Object.fromEntries(charged));
    const failing = metricsOf('lathe_gateway_attempts_total').flatMap(({ labels }) =>
      labels?.['outcome'] === 'failed' ? [labels['provider']] : [],
    );
    expect(failing).not.toEqual([]);
    expect(failing).not.toContain('c');
  });
});

it('a failure that the next deployment follows at once counts as failed, and the metric says so', async () => {
  const { send, familyOf } = await world(
    { a: { script: [{ status: 503 }] }, b: { more: 'priority = 2' } },
    { retries: 2 },
  );
  expect((await send()).status).toBe(200);
  const attempts = familyOf('lathe_gateway_attempts_total');
  expect(attempts?.samples.map(({ labels }) => `${labels?.['provider']} ${labels?.['outcome']}`)).toEqual([
    'a failed',
    'b ok',
  ]);
  expect(attempts?.help).toContain('failed: the others that failed, also where the next deployment');
});

describe('what answers', () => {
  const end = '[[fallbacks]]\nmodel = "chat"\nto = ["spare"]';

  it('is a deployment of the requested model before it is a fallback, which only the file or the caller allows', async () => {
    const limits = 'requests_per_minute = 1';
    const { send } = await world({ a: { more: limits }, b: { more: limits } });
    const first = [await send(), await send()];
    expect(tally(first)).toEqual({ a: 1, b: 1 });
    const third = await send();
    expect(third.status).toBe(429);
    expect(JSON.parse(third.text)).toMatchObject({ error: { code: 'rate_limit_exceeded' } });
    expect(third.row).toMatchObject({ cost: 0n, ended: 'released' });
    const named = await send({ headers: { 'x-svc-fallback-models': 'spare' } });
    expect(named.header('effective-model')).toBe('spare');
    expect(named.header('receipt-reason')).toBe('provider_failover');
    expect(named.row).toMatchObject({ reason: 'provider_failover', charged: nanoOf(tokens, card(9)) });
  });

  it('is the fallback of the file, and the receipt states it', async () => {
    const { send } = await world({ a: { more: 'requests_per_minute = 1' } }, { end });
    expect((await send()).header('receipt-reason')).toBe('as_requested');
    const other = await send();
    expect([other.header('effective-model'), other.header('receipt-reason')]).toEqual([
      'spare',
      'provider_failover',
    ]);
  });

  it('is not another deployment when the caller is at fault', async () => {
    const { send, requestsOf } = await world(
      {
        a: { script: [{ status: 400, message: 'no such tool' }], more: 'priority = 1' },
        b: { more: 'priority = 2' },
      },
      { end },
    );
    const { status, text } = await send();
    expect([status, text.includes('no such tool')]).toEqual([400, true]);
    expect(requestsOf()).toEqual({ a: 1, b: 0 });
  });

  it('is a deployment whose wire can express the request', async () => {
    const { send } = await world({
      a: { more: 'priority = 1' },
      claude: { wire: 'anthropic-messages', more: 'priority = 2' },
    });
    expect((await send({ wire: 'messages' })).provider).toBe('claude');
    expect((await send()).provider).toBe('a');
    expect((await send({ model: 'claude/chat' })).provider).toBe('claude');
  });

  it('is another one while the places of the first are taken', async () => {
    const held = Promise.withResolvers<void>();
    const { send, providers } = await world({
      a: { script: [{ say, hold: () => held.promise }], more: 'priority = 1\nconcurrency = 1' },
      b: { more: 'priority = 2' },
    });
    const running = send({ stream: true });
    await expect.poll(() => providers.get('a')?.open).toBe(1);
    expect((await send()).provider).toBe('b');
    held.resolve();
    expect((await running).provider).toBe('a');
    await expect.poll(async () => (await send()).provider).toBe('a');
  });
});

describe('a reload', () => {
  it('adds, removes and changes deployments; a request under way ends at the price it began with', async () => {
    const held = Promise.withResolvers<void>();
    const { send, reload, providers, notices, url, gateway } = await world({
      a: { price: 2 },
      b: { more: 'priority = 2' },
    });
    providers.get('a')?.script([{ say, hold: () => held.promise }]);
    const running = send({ stream: true });
    await expect.poll(() => providers.get('a')?.open).toBe(1);
    expect(gateway.state().breakers).toContainEqual({ provider: 'a', model: 'chat', isOpen: false });
    expect(await reload({ b: { price: 5 } })).toMatchObject({ outcome: 'replaced' });
    expect(notices.at(-1)).toMatch(/models: changed chat/);
    expect(gateway.state().breakers).toEqual([]);
    const { row, provider } = await send();
    expect([provider, row.charged]).toEqual(['b', nanoOf(tokens, card(5))]);
    held.resolve();
    expect((await running).row).toMatchObject({ provider: 'a', charged: nanoOf(tokens, card(2)) });
    const catalog = (await (await fetch(`${url}/v1/catalog`)).json()) as { data: object[] };
    expect(catalog.data[0]).toMatchObject({
      id: 'chat',
      provider: 'b',
      deployments: [{ provider: 'b', pricing: { in_usd_per_mtok: '5' } }],
    });
    // The limits of a deployment count what it already served.
    await reload({ b: { more: 'requests_per_minute = 1' } });
    expect((await send()).status).toBe(200);
    expect((await send()).status).toBe(429);
    await reload({ b: {} });
    expect((await send()).status).toBe(200);
    expect(await reload({ b: { more: 'wieght = 2' } })).toMatchObject({
      outcome: 'refused',
      faults: [
        expect.stringMatching(/models\[0\]\.deployments\[0\]\.wieght: unknown key \(did you mean weight\?\)/),
      ],
    });
  });
});

describe('a hedged request', () => {
  const settings = 'hedge = true';
  const two = { slow: { price: 3, more: 'priority = 1' }, quick: { price: 2, more: 'priority = 2' } };
  const headers = { 'x-svc-hedge': '1ms' };
  /** The first deployment answers when the test says so, if ever. */
  async function slowWorld(options: { drainSecs?: number; end?: string } = {}) {
    const made = await world(two, { settings, ...options });
    const first = Promise.withResolvers<void>();
    made.providers.get('slow')?.script(async () => {
      await first.promise;
      return { say };
    });
    undo.push(async () => first.resolve());
    return { ...made, first };
  }
  const receiptOf = async (
    { url, usual }: Pick<Awaited<ReturnType<typeof world>>, 'url' | 'usual'>,
    id: string | null,
  ) =>
    (await (
      await fetch(`${url}/v1/receipts/${id}`, { headers: { authorization: `Bearer ${usual.secret}` } })
    ).json()) as Record<string, unknown>;

  it.each([false, true])(
    'is answered by the second deployment where the first is slow; both cost, and the hold covered both: stream %s',
    async (stream) => {
      const made = await slowWorld();
      const { status, row, header, provider, text } = await made.send({
        stream,
        headers: { ...headers, 'x-svc-stream-receipt': 'comment' },
      });
      expect([status, provider, header('receipt-reason')]).toEqual([200, 'quick', 'as_requested']);
      expect(made.requestsOf()).toEqual({ slow: 1, quick: 1 });
      // The provider of the aborted attempt may bill its input.
      const hedge = row.cost_hedge;
      expect(hedge).toBeGreaterThan(0n);
      const answer = nanoOf(tokens, card(2));
      expect(row).toMatchObject({ cost: answer + hedge, charged: answer + hedge, overrun: 0n });
      // At least the 200 tokens of each answer.
      expect(row.amount).toBeGreaterThan(nanoOf({ output: 200 }, card(3)) + nanoOf({ output: 200 }, card(2)));
      expect(await receiptOf(made, header('request-id'))).toMatchObject({
        provider: 'quick',
        cost_nanousd: Number(answer + hedge),
        components: { hedge: Number(hedge) },
        attempts: [
          { provider: 'slow', outcome: 'aborted', cost_nanousd: Number(hedge) },
          { provider: 'quick', outcome: 'answered', cost_nanousd: Number(answer) },
        ],
      });
      if (stream) expect(text).toContain(`"hedge":${hedge}`);
      else expect(header('cost-components-nanousd')).toContain(`,hedge=${hedge}`);
      // The connection of the other attempt is closed.
      await expect.poll(() => made.providers.get('slow')?.left).toBe(1);
      expect(made.metricsOf('lathe_gateway_hedges_total')).toEqual([
        { labels: { provider: 'quick', model: 'chat', outcome: 'won' }, value: 1n },
      ]);
    },
  );

  it('costs a later hit of the cache what its answer cost, without the hedge', async () => {
    const { send } = await slowWorld({ end: '[cache]\nhit_price_percent = 100' });
    const { row } = await send({ headers });
    const answer = nanoOf(tokens, card(2));
    expect(row.cost).toBeGreaterThan(answer);
    await expect
      .poll(async () => {
        const again = await send({ headers });
        return [again.header('receipt-reason'), again.row.charged];
      })
      .toEqual(['cached', answer]);
  });

  it('is answered by the first deployment where that is the first to answer', async () => {
    const made = await slowWorld();
    const asked = Promise.withResolvers<void>();
    const never = Promise.withResolvers<void>();
    undo.push(async () => never.resolve());
    made.providers.get('quick')?.script(async () => {
      asked.resolve();
      await never.promise;
      return { say };
    });
    const sending = made.send({ headers });
    await asked.promise;
    made.first.resolve();
    const { row, provider } = await sending;
    expect(provider).toBe('slow');
    expect(row.cost).toBe(nanoOf(tokens, card(3)) + row.cost_hedge);
    expect(row.cost_hedge).toBeGreaterThan(0n);
    expect(made.metricsOf('lathe_gateway_hedges_total')).toMatchObject([{ labels: { outcome: 'lost' } }]);
  });

  it('costs nothing for an attempt that fails', async () => {
    const made = await slowWorld();
    made.providers.get('quick')?.script(() => {
      made.first.resolve();
      return { status: 500 };
    });
    const { row, provider, header } = await made.send({ headers });
    expect(provider).toBe('slow');
    expect(row).toMatchObject({ cost: nanoOf(tokens, card(3)), cost_hedge: 0n });
    expect(await receiptOf(made, header('request-id'))).toMatchObject({
      attempts: [
        { provider: 'slow', outcome: 'answered' },
        { provider: 'quick', outcome: 'failed', cost_nanousd: 0 },
      ],
    });
  });

  it('is not hedged where the balance or the ceiling covers one attempt only', async () => {
    const made = await world(two, { settings });
    made.providers.get('slow')?.script([{ say, delayMs: 50 }]);
    const refused = await made.send({ headers: { ...headers, 'x-svc-max-cost-nanousd': '1' } });
    const least = BigInt(/could cost (\d+) nanodollars/.exec(refused.text)?.[1] ?? '');
    // Enough for the dearer of the two, and too little for both.
    const one = least * 2n;
    const ceiling = await made.send({ headers: { ...headers, 'x-svc-max-cost-nanousd': String(one) } });
    const poor = await made.send({ headers, customer: await made.customer(one) });
    for (const { status, provider, row } of [ceiling, poor])
      expect([status, provider, row.cost_hedge]).toEqual([200, 'slow', 0n]);
    expect(made.requestsOf()).toEqual({ slow: 2, quick: 0 });
    expect(made.metricsOf('lathe_gateway_hedges_total')).toEqual([]);
  });

  it('charges both attempts by estimate where the caller leaves while both run', async () => {
    const made = await slowWorld({ drainSecs: 0 });
    const asked = Promise.withResolvers<void>();
    made.providers.get('quick')?.script(async () => {
      asked.resolve();
      await made.first.promise;
      return { say };
    });
    const controller = new AbortController();
    const { path, body } = wires.chat;
    const leaving = ask(made.url, path, {
      customer: made.usual,
      body: body('chat', false),
      headers,
      signal: controller.signal,
    }).catch(() => undefined);
    await asked.promise;
    controller.abort();
    await leaving;
    const row = await made.witness.rowOf(made.usual);
    expect(row.charged).toBe(row.cost_fresh + row.cost_hedge);
    expect(row.cost_hedge).toBeGreaterThan(0n);
    expect(row.cost_fresh).toBeGreaterThan(0n);
  });

  it('is refused where the model does not allow it, and where the time is none', async () => {
    const made = await world(two);
    const forbidden = await fetchRefusal(made, { 'x-svc-hedge': '300ms' });
    expect(forbidden).toMatchObject({ code: 'unsupported_parameter', param: 'x-svc-hedge' });
    const allowed = await world(two, { settings });
    for (const value of ['300', '0ms', '61s', 'soon', '1.5s', '-1ms'])
      expect(await fetchRefusal(allowed, { 'x-svc-hedge': value }), value).toMatchObject({
        param: 'x-svc-hedge',
        message: expect.stringContaining('from 1ms to 60s'),
      });
    expect(allowed.requestsOf()).toEqual({ slow: 0, quick: 0 });
    expect((await allowed.send({ headers: { 'x-svc-hedge': '60s' } })).status).toBe(200);
  });

  const fetchRefusal = async (
    { url, usual }: Pick<Awaited<ReturnType<typeof world>>, 'url' | 'usual'>,
    more: Record<string, string>,
  ) => {
    const { path, body } = wires.chat;
    const response = await ask(url, path, { customer: usual, body: body('chat', false), headers: more });
    expect(response.status).toBe(400);
    return ((await response.json()) as { error: Record<string, unknown> }).error;
  };
});
