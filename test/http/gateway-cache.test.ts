/** The cache of answers, over HTTP: what it answers, what it costs, and what it never answers. */
import { afterEach, describe, expect, it } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import { type CallerWire, wires } from '../support/gateway/asks.ts';
import { gatewayCommandLine } from '../support/gateway/command-line.ts';
import { costOf, fileWorld, modelTables } from '../support/gateway/file-world.ts';
import type { FakeProvider } from '../support/gateway/provider.ts';
import type { Customer } from '../support/gateway/world.ts';
import { nowDrained } from '../support/gateway/drained.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const say = { text: 'An answer.', usage: { input: 100, output: 50 } };
const usualCost = costOf(100, 50);

async function world(
  settings = '[cache]\n',
  {
    model = '',
    limits = '',
    ...options
  }: { model?: string; limits?: string } & Parameters<typeof fileWorld>[1] = {},
) {
  const toml =
    (cache: string, ofModel = model) =>
    (provider: FakeProvider) =>
      `${modelTables(provider, ofModel)}${cache}\n[limits]\nretries = 0\n${limits}`;
  const at = await fileWorld(toml(settings), options);
  undo.push(async () => {
    await nowDrained(at.gateway);
    expect([await at.witness.faults(), at.faults]).toEqual([[], []]);
    await at.close();
  });
  if (!options.provider) at.provider.script([{ say }]);
  const usual = await at.customer();
  const send = async ({
    wire = 'chat',
    model: id = 'chat',
    stream = false,
    content,
    customer = usual,
    headers = {},
    more = {},
  }: {
    wire?: CallerWire;
    model?: string;
    stream?: boolean;
    content?: string;
    customer?: Customer;
    headers?: Record<string, string>;
    more?: object;
  } = {}) => {
    const { path, body } = wires[wire];
    const response = await at.ask(path, {
      customer,
      body: { ...body(id, stream, content), ...more },
      headers,
    });
    const text = await response.text();
    const header = (name: string) => response.headers.get(`x-svc-${name}`);
    const row = await at.witness.row(header('request-id') ?? '');
    return {
      status: response.status,
      text,
      header,
      headers: response.headers,
      row,
      isHit: header('receipt-reason') === 'cached',
    };
  };
  /** Answers are stored in the background. */
  const stored = (count: number) =>
    expect
      .poll(() =>
        at.witness.books.store.read(async (db) => {
          const rows = await db.selectFrom('gateway_cache').select('key').execute();
          return rows.length;
        }),
      )
      .toBe(count);
  /** Asserts that nothing was stored: answers are stored in the order in which they end, and this one is the first. */
  const expectNothingStored = async () => {
    at.provider.script([{ say }]);
    await send({ model: 'responses', content: 'Is this the first one?', headers: { 'x-svc-cache': 'on' } });
    const models = () =>
      at.witness.books.store.read((db) => db.selectFrom('gateway_cache').select('model').execute());
    await expect.poll(async () => (await models()).some(({ model: id }) => id === 'responses')).toBe(true);
    expect(await models()).toHaveLength(1);
  };
  return {
    ...at,
    expectNothingStored,
    usual,
    send,
    stored,
    asked: () => at.provider.requests.length,
    reload: (cache: string, ofModel?: string) => at.edit(toml(cache, ofModel)),
  };
}

describe('a request that was answered before', () => {
  const forms = [
    ['chat', 'chat'],
    ['chat', 'claude'],
    ['chat', 'gemini'],
    ['responses', 'responses'],
    ['responses', 'chat'],
    ['messages', 'claude'],
    ['completions', 'chat'],
    ['embeddings', 'embedder'],
  ] as const satisfies readonly (readonly [CallerWire, string])[];

  it.each(forms)('on %s of %s gets the same answer, free of charge', async (wire, model) => {
    const { send, stored, asked, metric } = await world();
    const first = await send({ wire, model });
    expect(first).toMatchObject({ status: 200, isHit: false });
    await stored(1);
    const again = await send({ wire, model });
    expect(again).toMatchObject({ status: 200, isHit: true, text: first.text });
    expect(again.header('cost-nanousd')).toBe('0');
    expect(again.header('effective-model')).toBe(first.header('effective-model'));
    expect(again.header('request-id')).not.toBe(first.header('request-id'));
    expect(again.headers.get('age')).toMatch(/^\d+$/);
    expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'));
    expect(again.row).toMatchObject({ reason: 'cached', charged: 0n, ended: 'settled', tokens_output: 0n });
    expect(asked()).toBe(1);
    expect(metric('lathe_gateway_cache_lookups_total', { model, outcome: 'hit' })).toBe(1n);
    expect(metric('lathe_gateway_cache_lookups_total', { model, outcome: 'miss' })).toBe(1n);
  });

  it.each(forms.slice(0, -1))('as a stream on %s of %s is streamed', async (wire, model) => {
    const { send, stored, asked } = await world();
    const first = await send({ wire, model, stream: true });
    await stored(1);
    const again = await send({ wire, model, stream: true });
    expect(again).toMatchObject({ status: 200, isHit: true });
    expect(again.headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(again.header('cost-nanousd')).toBeNull();
    const receipt = (text: string) => /"svc_receipt":(\{.*?\}\})\}/.exec(text)?.[1];
    if (wire === 'messages') {
      expect(JSON.parse(receipt(first.text) ?? '')).toMatchObject({ cost_nanousd: usualCost });
      expect(JSON.parse(receipt(again.text) ?? '')).toMatchObject({
        cost_nanousd: 0,
        request_id: again.header('request-id'),
      });
    }
    const withoutReceipt = (text: string) => text.replace(receipt(text) ?? '', '');
    expect(withoutReceipt(again.text)).toBe(withoutReceipt(first.text));
    // The form of the answer is part of the request.
    expect(await send({ wire, model })).toMatchObject({ status: 200, isHit: false });
    expect(asked()).toBe(2);
  });

  it('has the receipt of its own request as the comment that it asks for', async () => {
    const { send, stored } = await world('[cache]\nhit_price_nanousd = 7\n');
    const headers = { 'x-svc-stream-receipt': 'comment' };
    const first = await send({ stream: true });
    expect(first.text).not.toContain(': receipt');
    await stored(1);
    const again = await send({ stream: true, headers });
    expect(again.text).toMatch(/^data: \[DONE\]\n\n: receipt \{"cost_nanousd":7,"request_id":"req_/m);
    expect(again.text.match(/: receipt/g)).toHaveLength(1);
    expect(again.text).toContain(String(again.header('request-id')));
  });

  it('finds it by an alias, and with another end user, whose usage it is', async () => {
    const { send, stored, witness, usual } = await world();
    await send({ more: { user: 'ann' } });
    await stored(1);
    expect(await send({ model: 'auto', more: { user: 'bob' } })).toMatchObject({ isHit: true });
    const usage = await witness.books.store.read((db) =>
      db.selectFrom('gateway_usage').selectAll().where('key_id', '=', usual.keyId).orderBy('tag').execute(),
    );
    expect(usage).toMatchObject([
      { tag: 'ann', requests: 1n, prompt_tokens: 100n, completion_tokens: 50n, spent: BigInt(usualCost) },
      { tag: 'bob', requests: 1n, prompt_tokens: 0n, completion_tokens: 0n, spent: 0n },
    ]);
  });

  it('is asked again by another account', async () => {
    const { send, stored, customer } = await world();
    await send();
    await stored(1);
    expect(await send({ customer: await customer() })).toMatchObject({ isHit: false });
  });

  it('is asked again with any other parameter', async () => {
    const { send, stored, asked } = await world();
    await send();
    await stored(1);
    for (const more of [{ temperature: 0.5 }, { max_tokens: 100 }, { seed: 4 }, { unknown_member: 1 }])
      expect(await send({ more })).toMatchObject({ isHit: false });
    expect(asked()).toBe(5);
  });
});

describe('the price of a stored answer', () => {
  it.each([
    ['hit_price_nanousd = 1234', 1234],
    ['hit_price_percent = 10', usualCost / 10],
    ['hit_price_percent = 100', usualCost],
  ])('%s is charged, in the receipt and in the ledger', async (line, cost) => {
    const { send, stored, url, usual } = await world(`[cache]\n${line}\n`);
    await send();
    await stored(1);
    const again = await send();
    expect(again.header('cost-nanousd')).toBe(String(cost));
    expect(again.header('cost-components-nanousd')).toBe(`fresh=0,cache_write=0,cache_read=${cost},output=0`);
    expect(again.row).toMatchObject({
      charged: BigInt(cost),
      amount: BigInt(cost),
      cost_cache_read: BigInt(cost),
    });
    const receipt = await fetch(`${url}/v1/receipts/${again.header('request-id')}`, {
      headers: { authorization: `Bearer ${usual.secret}` },
    });
    expect(await receipt.json()).toMatchObject({ reason: 'cached', cost_nanousd: cost, state: 'settled' });
  });

  it('of a model replaces that of all models', async () => {
    const { send, stored } = await world('[cache]\nhit_price_percent = 100\n', {
      model: 'cache = { hit_price_nanousd = 5 }',
    });
    await send();
    await stored(1);
    expect((await send()).header('cost-nanousd')).toBe('5');
  });

  it('is what balance, cap and ceiling must cover, not that of an answer of the provider', async () => {
    const { send, stored, customer, witness } = await world('[cache]\nhit_price_nanousd = 1000\n');
    const poor = await customer({ credit: 2_000_000n });
    await send({ customer: poor });
    await stored(1);
    const { ledger } = witness.books;
    const { remaining } = await ledger.balance(poor.accountId);
    await ledger.credit(poor.accountId, 1500n - remaining);
    expect(await send({ customer: poor, headers: { 'x-svc-max-cost-nanousd': '999' } })).toMatchObject({
      status: 402,
    });
    expect(await send({ customer: poor })).toMatchObject({ status: 200, isHit: true });
    // Only 500 remain.
    const refused = await send({ customer: poor });
    expect(refused.status).toBe(402);
    expect(refused.text).toContain('insufficient_allowance');
    expect((await ledger.balance(poor.accountId)).remaining).toBe(500n);
  });

  it('is charged once for an idempotency key', async () => {
    const { send, stored, witness, usual } = await world('[cache]\nhit_price_nanousd = 1000\n');
    await send();
    await stored(1);
    const { ledger } = witness.books;
    const before = (await ledger.balance(usual.accountId)).remaining;
    const headers = { 'idempotency-key': 'one' };
    const hit = await send({ headers });
    const replay = await send({ headers });
    expect(replay).toMatchObject({ text: hit.text, isHit: true });
    expect(replay.headers.get('x-svc-idempotent-replay')).toBe('true');
    expect((await ledger.balance(usual.accountId)).remaining).toBe(before - 1000n);
  });
});

describe('a stored answer', () => {
  it('counts as a request of its key, and as no tokens', async () => {
    const { send, stored, ask, usual } = await world(undefined, {
      limits: 'requests_per_minute = 3\ntokens_per_minute = 151\n',
    });
    await send();
    await stored(1);
    // One token is left.
    expect(await send()).toMatchObject({ status: 200, isHit: true });
    expect(await send()).toMatchObject({ status: 200, isHit: true });
    const { path, body } = wires.chat;
    const refused = await ask(path, { customer: usual, body: body('chat', false) });
    expect(await refused.text()).toContain('rate_limit_exceeded');
    expect(refused.status).toBe(429);
  });
});

describe('who decides', () => {
  it('the operator: without [cache] nothing is stored, also where the caller asks for it', async () => {
    const { send, asked, stored, metric } = await world('');
    await send({ headers: { 'x-svc-cache': 'on' } });
    await send({ headers: { 'x-svc-cache': 'on' } });
    expect(asked()).toBe(2);
    await stored(0);
    expect(metric('lathe_gateway_cache_lookups_total', { outcome: 'miss' })).toBeUndefined();
  });

  it('the caller, who leaves it with `off` and renews an answer with `refresh`', async () => {
    const { send, asked, stored, provider } = await world();
    await send({ headers: { 'x-svc-cache': 'off' } });
    await send();
    await stored(1);
    provider.script([{ say: { ...say, text: 'A newer answer.' } }]);
    expect(await send({ headers: { 'x-svc-cache': 'off' } })).toMatchObject({ isHit: false });
    expect((await send()).text).toContain('An answer.');
    expect(await send({ headers: { 'x-svc-cache': 'refresh' } })).toMatchObject({ isHit: false });
    await expect.poll(async () => (await send()).text).toContain('A newer answer.');
    expect(asked()).toBe(4);
  });

  it('the caller, where the operator leaves it to the request', async () => {
    const { send, asked, stored } = await world('[cache]\nuse = "on_request"\n');
    await send();
    await send({ headers: { 'x-svc-cache': 'on' } });
    await stored(1);
    expect(await send({ headers: { 'x-svc-cache': 'on' } })).toMatchObject({ isHit: true });
    expect(await send()).toMatchObject({ isHit: false });
    expect(asked()).toBe(3);
  });

  it('with a header that says something else, the request is refused', async () => {
    const { ask, usual, asked } = await world('');
    const { path, body } = wires.chat;
    const headers = { 'x-svc-cache': 'maybe' };
    const refused = await ask(path, { customer: usual, body: body('chat', false), headers });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("x-svc-cache must be one of on, off, refresh, got 'maybe'");
    expect(asked()).toBe(0);
  });

  it('a model: `never` excludes it', async () => {
    const { send, asked, reload, stored } = await world('[cache]\n', { model: 'cache = { use = "never" }' });
    await send();
    await send({ headers: { 'x-svc-cache': 'on' } });
    expect(asked()).toBe(2);
    await stored(0);
    await reload('[cache]\n', '');
    await send();
    await stored(1);
  });
});

describe('what is not stored', () => {
  it('an error', async () => {
    const { send, expectNothingStored, provider } = await world();
    provider.script([{ status: 400, message: 'No.' }]);
    expect(await send()).toMatchObject({ status: 400 });
    await expectNothingStored();
    expect(await send()).toMatchObject({ status: 200, isHit: false });
  });

  it.each([
    ['that the provider breaks off', { say, cutAfter: 2 }],
    ['that a filter ended', { say: { ...say, finish: 'content_filter' as const } }],
  ])('a stream %s', async (_what, reply) => {
    const { send, expectNothingStored, provider } = await world();
    provider.script([reply]);
    await send({ stream: true });
    await expectNothingStored();
  });

  it('a stream whose caller disconnects, until all of it has been read', async () => {
    const { ask, expectNothingStored, provider, usual, send } = await world('[cache]\n', {
      limits: 'drain_idle_secs = 1\n',
    });
    const { path, body } = wires.chat;
    provider.script([{ say: { ...say, text: 'word '.repeat(50) }, stallAfter: 5 }]);
    const leave = new AbortController();
    const response = await ask(path, { customer: usual, body: body('chat', true), signal: leave.signal });
    await response.body?.getReader().read();
    leave.abort();
    await expect.poll(() => provider.open, { timeout: 10_000 }).toBe(0);
    await expectNothingStored();
    expect((await send({ stream: true })).isHit).toBe(false);
  });

  it('the answer of a fallback', async () => {
    const { send, expectNothingStored, provider } = await world(
      '[[fallbacks]]\nmodel = "chat"\nto = ["claude"]\n[cache]\n',
    );
    provider.script(({ path }) => (path.endsWith('/messages') ? { say } : { status: 500 }));
    expect((await send()).header('receipt-reason')).toBe('provider_failover');
    await expectNothingStored();
  });
});

describe("a caller's own key", () => {
  const master = Buffer.alloc(32, 3).toString('base64');
  const own = async () => {
    const at = await world(
      '[byok.at-responses]\n[secrets]\nmaster_key_env = "MASTER"\n[cache]\nhit_price_nanousd = 9\n',
      { env: { MASTER: master } },
    );
    const headers = { authorization: `Bearer ${at.usual.secret}`, 'content-type': 'application/json' };
    const path = `${at.url}/v1/keys/at-responses`;
    const stored = await fetch(path, { method: 'PUT', headers, body: '{"api_key": "sk-mine-0123456789"}' });
    expect(stored.status, await stored.text()).toBe(200);
    return { ...at, remove: () => fetch(path, { method: 'DELETE', headers }) };
  };
  const asking = { wire: 'responses', model: 'responses' } as const;

  it('makes stored answers free, and those are not given for the key of the operator', async () => {
    const { send, stored, remove } = await own();
    await send(asking);
    await stored(1);
    const hit = await send(asking);
    expect(hit).toMatchObject({ isHit: true, row: { charged: 0n, endpoint: 'byok:at-responses' } });
    expect(hit.header('endpoint')).toBe('byok:at-responses');
    await remove();
    // A stored credential is known for a few seconds.
    let last = hit;
    const endpoint = async () => {
      last = await send(asking);
      return last.header('endpoint');
    };
    await expect.poll(endpoint, { timeout: 20_000 }).toBe('credits');
    expect(last).toMatchObject({ isHit: false });
  });

  it('with tools that the provider runs, an answer is not stored', async () => {
    const { send, asked, expectNothingStored } = await own();
    const more = { tools: [{ type: 'web_search' }] };
    expect(await send({ ...asking, more })).toMatchObject({ status: 200 });
    expect(await send({ ...asking, more })).toMatchObject({ status: 200, isHit: false });
    expect(asked()).toBe(2);
    await expectNothingStored();
  });
});

describe('bounds', () => {
  it('remove the oldest answers above the number and the size', async () => {
    const { send, stored, reload } = await world('[cache]\nmax_entries = 2\n');
    for (const content of ['one', 'two', 'three']) await send({ content });
    await stored(2);
    expect(await send({ content: 'three' })).toMatchObject({ isHit: true });
    expect(await send({ content: 'one' })).toMatchObject({ isHit: false });
    // An answer that is larger than all the room is not stored.
    await reload('[cache]\nmax_bytes = 10\n');
    await send({ content: 'four' });
    expect(await send({ content: 'four' })).toMatchObject({ isHit: false });
  });

  it('leave an account its answers while another one stores many', async () => {
    const at = await world('[cache]\nmax_entries = 4\n');
    const other = await at.customer();
    for (const content of ['own 1', 'own 2']) await at.send({ content });
    for (let n = 0; n < 12; n++) await at.send({ content: `number ${n}`, customer: other });
    await at.stored(4);
    for (const content of ['own 1', 'own 2'])
      expect(await at.send({ content })).toMatchObject({ isHit: true });
    expect(await at.send({ content: 'number 11', customer: other })).toMatchObject({ isHit: true });
    expect(await at.send({ content: 'number 1', customer: other })).toMatchObject({ isHit: false });
  });

  it('do not give an answer that is older than the time to live, also where that is lowered later', async () => {
    const { send, stored, witness, reload, asked } = await world('[cache]\nttl_secs = 600\n');
    await send();
    await stored(1);
    const age = (secs: number) =>
      witness.books.store.transaction((tx) =>
        tx
          .updateTable('gateway_cache')
          .set({
            stored_at: new Date(Date.now() - secs * 1000).toISOString(),
            expires_at: new Date(Date.now() + (600 - secs) * 1000).toISOString(),
          })
          .execute(),
      );
    await age(300);
    const hit = await send();
    expect(hit).toMatchObject({ isHit: true });
    expect(Number(hit.headers.get('age'))).toBeGreaterThanOrEqual(300);
    expect(await reload('[cache]\nttl_secs = 200\n')).toMatchObject({ outcome: 'replaced' });
    expect(await send()).toMatchObject({ isHit: false });
    await reload('[cache]\nttl_secs = 600\n');
    await age(601);
    const before = asked();
    await send();
    expect(asked()).toBe(before + 1);
  });

  it('are off at once when [cache] is removed', async () => {
    const { send, stored, reload } = await world();
    await send();
    await stored(1);
    expect(await reload('')).toMatchObject({ outcome: 'replaced' });
    expect(await send()).toMatchObject({ isHit: false });
  });

  it('do not matter for a model that moved to another upstream', async () => {
    const { send, stored, reload } = await world();
    await send();
    await stored(1);
    await reload('[cache]\n', 'upstream = "another"');
    expect(await send()).toMatchObject({ isHit: false });
  });
});

describeDatabases('two gateways of one database', (url) => {
  it('forget at once what `cache clear` removes, of one account or of all', async () => {
    const database = await url();
    const { customer, send, stored, usual } = await world('[cache]\n', { database });
    const other = await customer();
    await send();
    await send({ customer: other });
    await stored(2);
    const clear = (...args: string[]) =>
      gatewayCommandLine(['cache', 'clear', ...args, '--database', database]);
    expect(await clear('--account', usual.accountId)).toEqual({
      out: 'removed 1 stored answer\n',
      err: '',
      code: 0,
    });
    expect(await send({ customer: other })).toMatchObject({ isHit: true });
    expect(await send()).toMatchObject({ isHit: false });
    await stored(2);
    expect(JSON.parse((await clear('--json')).out)).toEqual({ removed: 2 });
    expect(await send({ customer: other })).toMatchObject({ isHit: false });
    const { out } = await gatewayCommandLine(['changes', '--json', '--database', database]);
    const changes = (JSON.parse(out) as { data: { action: string }[] }).data.filter(
      ({ action }) => action === 'cache.clear',
    );
    expect(changes).toMatchObject([
      { subject: 'cache', after: { removed: 2 } },
      { subject: usual.accountId, after: { removed: 1 } },
    ]);
  });

  it('share stored answers, what they cost and their bounds', async () => {
    const database = await url();
    const one = await world('[cache]\nhit_price_nanousd = 3\nmax_entries = 3\n', { database });
    const other = await world('[cache]\nhit_price_nanousd = 3\nmax_entries = 3\n', {
      database,
      provider: one.provider,
    });
    const first = await one.send({ customer: one.usual, stream: true });
    await one.stored(1);
    const hit = await other.send({ customer: one.usual, stream: true });
    expect(hit).toMatchObject({ isHit: true, text: first.text });
    expect(hit.row).toMatchObject({ charged: 3n });
    expect(one.asked()).toBe(1);
    await Promise.all(
      Array.from({ length: 8 }, (_, n) => (n % 2 === 0 ? one : other).send({ content: `number ${n}` })),
    );
    await one.stored(3);
  });
});
