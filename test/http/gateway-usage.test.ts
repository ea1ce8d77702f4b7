/** What a key is told of its usage, and the receipts of its requests, over HTTP and with official clients. */
import OpenAI from 'openai';
import OpenAIOld from 'openai-6';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freshSqlite } from '../support/databases.ts';
import { pairs, wires } from '../support/gateway/asks.ts';
import { aiSdks } from '../support/ai-sdks.ts';
import { type Customer, gatewayWorld, nanoOf } from '../support/gateway/world.ts';

type Json = Record<string, unknown>;

const database = freshSqlite();
const usage = { input: 100, cacheRead: 40, output: 7, cacheWrite: 0 };
const cost = Number(nanoOf({ fresh: 60, cacheRead: 40, output: 7 }));
const sums = { requests: 1, prompt_tokens: 100, cached_tokens: 40, completion_tokens: 7 };

let world: Awaited<ReturnType<typeof gatewayWorld>>;
let customer: Customer;
beforeAll(async () => {
  world = await gatewayWorld({ database, limits: { drainSecs: 2, drainIdleSecs: 1 } });
});
afterAll(async () => {
  expect(await world.witness.faults()).toEqual([]);
  expect(world.faults).toEqual([]);
  await world.close();
});
beforeEach(async () => {
  world.provider.script([{ say: { text: 'Hello.', usage } }]);
  customer = await world.customer();
});

const get = async (path: string, { secret } = customer): Promise<{ status: number; body: Json }> => {
  const response = await fetch(world.url + path, { headers: { authorization: `Bearer ${secret}` } });
  return { status: response.status, body: (await response.json()) as Json };
};
const used = async (query = '', as = customer) => (await get(`/v1/usage${query}`, as)).body['data'];
const idOf = ({ headers }: Response) => headers.get('x-svc-request-id') ?? '';
const receiptOf = (response: Response, as = customer) => get(`/v1/receipts/${idOf(response)}`, as);
const chat = (more: object = {}, headers: Record<string, string> = {}, stream = false) =>
  world.ask('/v1/chat/completions', {
    customer,
    headers,
    body: { ...wires.chat.body('chat', stream), ...more },
  });
const today = new Date().toISOString().slice(0, 10);

describe('GET /v1/usage', () => {
  it('reports what this key used and paid, and no other', async () => {
    const spent: Json = { ...sums, spend_nanodollars: cost };
    await (await chat({ user: 'ann' })).text();
    await (await chat({}, {}, true)).text();
    const other = await world.customer();
    await (
      await world.ask('/v1/chat/completions', { customer: other, body: wires.chat.body('gemini', false) })
    ).text();
    const { body } = await get('/v1/usage?by=tag,model&since=1d');
    expect(body).toMatchObject({
      object: 'list',
      since: today,
      until: today,
      by: ['tag', 'model'],
      data: [
        { tag: '', model: 'chat', ...spent },
        { tag: 'ann', model: 'chat', ...spent },
      ],
      total: {
        requests: 2,
        prompt_tokens: 200,
        spend_nanodollars: 2 * cost,
        spend_usd: `0.${String(2 * cost).padStart(9, '0')}`,
      },
    });
    expect(await used()).toMatchObject([{ model: 'chat', requests: 2, spend_nanodollars: 2 * cost }]);
    expect(await used('?by=key,account,provider', other)).toMatchObject([
      { key: other.keyId, account: other.accountId, provider: 'at-gemini', requests: 1 },
    ]);
    const { remaining_nanodollars: remaining } = (await get('/v1/balance')).body;
    expect(remaining).toBe(10 ** 12 - 2 * cost);
  });

  it('reports the tag of the header, which providers do not get', async () => {
    await (await chat({ user: 'ann' }, { 'x-svc-tag': 'nightly' })).text();
    await (await chat({}, { 'x-svc-tag': 'nightly' }, true)).text();
    expect(await used('?by=tag')).toMatchObject([
      { tag: 'nightly', requests: 2, spend_nanodollars: 2 * cost },
    ]);
    expect(world.provider.requests.at(-1)?.headers).not.toHaveProperty('x-svc-tag');
  });

  it('counts an answer that is replayed for its idempotency key once', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const first = await chat({}, headers);
    const again = await chat({}, headers);
    expect(again.headers.get('x-svc-idempotent-replay')).toBe('true');
    expect(idOf(again)).toBe(idOf(first));
    expect(await used()).toMatchObject([{ ...sums, spend_nanodollars: cost }]);
    expect((await receiptOf(again)).body).toMatchObject({ request_id: idOf(first), cost_nanousd: cost });
  });

  it('counts failed requests without a cost, and refused ones not', async () => {
    world.provider.script([{ status: 400, message: 'I will not.' }]);
    expect((await chat()).status).toBe(400);
    expect((await chat({}, { 'x-svc-max-cost-nanousd': '1' })).status).toBe(402);
    expect((await chat({ model: 'no-such-model' })).status).toBe(404);
    expect(await used()).toMatchObject([
      { requests: 1, prompt_tokens: 0, completion_tokens: 0, spend_nanodollars: 0, spend_usd: '0.000000000' },
    ]);
  });

  it('needs a key', async () => {
    expect((await get('/v1/usage', { ...customer, secret: 'lathe_gateway_wrong' })).status).toBe(401);
    expect((await get('/v1/receipts/req_1', { ...customer, secret: 'lathe_gateway_wrong' })).status).toBe(
      401,
    );
  });

  it('names everything that is wrong with its parameters', async () => {
    const { status, body } = await get('/v1/usage?by=modle&since=12h&until=2026&limit=3');
    expect(status).toBe(400);
    const { violations } = body['error'] as { violations: { path: string; message: string }[] };
    expect(Object.fromEntries(violations.map(({ path, message }) => [path, message]))).toEqual({
      limit: 'expected only by, since, until',
      by: expect.stringContaining("got 'modle' (did you mean 'model'?)"),
      since: expect.stringContaining("got '12h'"),
      until: expect.stringContaining("got '2026'"),
    });
    for (const query of [
      'since=2026-02-02&until=2026-02-01',
      'since=3660d',
      'since=1d&since=2d',
      'since=1000-01&until=2999-12',
    ])
      expect((await get(`/v1/usage?${query}`)).body, query).toMatchObject({
        error: { type: 'invalid_request_error', param: 'since' },
      });
  });
});

describe('GET /v1/receipts/{request_id}', () => {
  it.each(pairs)('of %s from %s, streamed or not, is what was charged', async (wire, model) => {
    for (const stream of [false, true]) {
      const { path, body } = wires[wire];
      const response = await world.ask(path, { customer, body: body(model, stream) });
      const text = await response.text();
      expect(response.status, text).toBe(200);
      const row = await world.witness.row(idOf(response));
      const receipt = await receiptOf(response);
      expect(receipt.status).toBe(200);
      expect(receipt.body).toMatchObject({
        request_id: row.id,
        state: 'settled',
        status: 200,
        outcome: 'completed',
        wire,
        stream,
        requested_model: model,
        effective_model: model,
        provider: `at-${model}`,
        endpoint: 'credits',
        reason: 'as_requested',
        pricing_identity: response.headers.get('x-svc-pricing-identity'),
        tag: null,
        cost_nanousd: Number(row.charged),
        usage: { prompt_tokens: 100, completion_tokens: 7 },
      });
      expect(row.charged).toBeGreaterThan(0n);
      const stated = response.headers.get('x-svc-cost-components-nanousd');
      if (!stream)
        expect(
          Object.entries(receipt.body['components'] as object)
            .map(([name, amount]) => `${name}=${amount}`)
            .join(','),
        ).toBe(stated);
    }
  });

  it('is only for the key of the request, also within an account', async () => {
    const response = await chat({ user: 'ann' });
    expect((await receiptOf(response)).body).toMatchObject({ tag: 'ann', cost_nanousd: cost });
    const { secret } = await world.witness.books.ledger.createKey({ account: customer.accountId });
    for (const as of [await world.customer(), { ...customer, secret }])
      expect(await receiptOf(response, as)).toMatchObject({
        status: 404,
        body: { error: { code: 'receipt_not_found', param: 'request_id' } },
      });
    for (const id of ['req_00', '%00', 'a/b']) expect((await get(`/v1/receipts/${id}`)).status, id).toBe(404);
  });

  it('of a request that runs is a 409, and comes when its stream ends', async () => {
    const gate = Promise.withResolvers<void>();
    world.provider.script([
      { say: { text: 'a b c', usage }, hold: (frame) => (frame === 2 ? gate.promise : undefined) },
    ]);
    const response = await chat({}, {}, true);
    expect(await receiptOf(response)).toMatchObject({
      status: 409,
      body: { error: { code: 'request_in_progress' } },
    });
    gate.resolve();
    await response.text();
    expect((await receiptOf(response)).body).toMatchObject({ state: 'settled', cost_nanousd: cost });
  });

  it('of failed and refused requests say that they were free', async () => {
    const refused = await chat({}, { 'x-svc-max-cost-nanousd': '1' });
    world.provider.script([{ say: { text: 'Hello.', usage }, cutAfter: 2 }]);
    const broken = await chat({}, {}, true);
    await broken.text();
    await world.witness.row(idOf(refused));
    for (const [response, state, status] of [
      [refused, 'refused', 402],
      [broken, 'released', 200],
    ] as const)
      expect((await receiptOf(response)).body).toMatchObject({
        state,
        status,
        cost_nanousd: 0,
        usage: null,
      });
  });

  it('and usage survive the gateway', async () => {
    const response = await chat();
    const next = await gatewayWorld({ database });
    try {
      const { secret } = customer;
      const headers = { authorization: `Bearer ${secret}` };
      const receipt = await fetch(`${next.url}/v1/receipts/${idOf(response)}`, { headers });
      expect(await receipt.json()).toEqual((await receiptOf(response)).body);
      const report = await fetch(`${next.url}/v1/usage`, { headers });
      expect(await report.json()).toMatchObject({ data: [{ model: 'chat', ...sums }] });
    } finally {
      await next.close();
    }
  });
});

async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe('the receipt at the end of a stream', () => {
  const withComment = { 'x-svc-stream-receipt': 'comment' };
  const commentOf = (text: string) => {
    const [, json] = /\n: receipt (.*)\n\n$/.exec(text) ?? [];
    return json === undefined ? undefined : (JSON.parse(json) as Json);
  };

  it.each(pairs.filter(([wire]) => wire !== 'messages' && wire !== 'embeddings'))(
    'of %s from %s is its last comment, if the caller wants it',
    async (wire, model) => {
      const { path, body } = wires[wire];
      const plain = await world.ask(path, { customer, body: body(model, true) });
      expect(await plain.text()).not.toContain(': receipt');
      const response = await world.ask(path, { customer, headers: withComment, body: body(model, true) });
      const { cost_nanousd, components, effective_model } = (await receiptOfStream(response)) ?? {};
      expect((await receiptOf(response)).body).toMatchObject({ cost_nanousd, components, effective_model });
      expect(cost_nanousd).toBeGreaterThan(0);
    },
  );
  const receiptOfStream = async (response: Response) => {
    const found = commentOf(await response.text());
    expect(found).toMatchObject({ request_id: idOf(response) });
    return found;
  };

  it('of a stream that the provider breaks off says that it was free', async () => {
    world.provider.script([{ say: { text: 'a b c', usage }, cutAfter: 2 }]);
    expect(await receiptOfStream(await chat({}, withComment, true))).toMatchObject({ cost_nanousd: 0 });
  });

  it('is part of the answer that an idempotency key repeats', async () => {
    const headers = { ...withComment, 'idempotency-key': crypto.randomUUID() };
    const first = await (await chat({}, headers, true)).text();
    expect(await (await chat({}, headers, true)).text()).toBe(first);
    expect(commentOf(first)).toMatchObject({ cost_nanousd: cost });
  });

  it('on the messages wire remains an event', async () => {
    const { path, body } = wires.messages;
    const response = await world.ask(path, { customer, headers: withComment, body: body('claude', true) });
    const text = await response.text();
    expect(text).toContain('event: svc_receipt');
    expect(text).not.toContain(': receipt {');
  });

  it('in another form is a 400', async () => {
    const response = await chat({}, { 'x-svc-stream-receipt': 'trailer' }, true);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'x-svc-stream-receipt' } });
  });

  it.each([
    ['7', OpenAI],
    ['6', OpenAIOld as unknown as typeof OpenAI],
  ])('does not disturb the OpenAI client %s', async (_, Client) => {
    const options = { apiKey: customer.secret, baseURL: `${world.url}/v1`, maxRetries: 0 };
    const client = new Client({ ...options, defaultHeaders: withComment });
    const stream = await client.chat.completions.create({
      model: 'chat',
      messages: [{ role: 'user', content: 'Hello' }],
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await allOf(stream);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('Hello.');
    expect(chunks.at(-1)?.usage?.prompt_tokens).toBe(100);
    const response = await client.responses
      .stream({ model: 'responses', input: 'Hello', store: false })
      .finalResponse();
    expect(response.output_text).toBe('Hello.');
  });

  it.each(aiSdks.map(({ version, sdk, create }) => [version, sdk, create] as const))(
    'does not disturb the AI SDK %s',
    async (_, sdk, create) => {
      const anthropic = create({ apiKey: customer.secret, baseURL: `${world.url}/v1`, headers: withComment });
      const { textStream } = sdk.streamText({ model: anthropic('claude'), prompt: 'Hello' });
      expect((await allOf(textStream)).join('')).toBe('Hello.');
    },
  );
});
