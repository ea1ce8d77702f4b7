import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import OpenAI from 'openai';
import { pairs, wires } from '../support/gateway/asks.ts';
import type { ProviderReply } from '../support/gateway/provider.ts';
import { type Customer, gatewayWorld, nanoOf, otherRates } from '../support/gateway/world.ts';

type World = Awaited<ReturnType<typeof gatewayWorld>>;
let world: World;
let customer: Customer;

beforeAll(async () => {
  world = await gatewayWorld({
    fallbacks: new Map([['chat', ['chat-other']]]),
    limits: { retries: 2, drainSecs: 1, drainIdleSecs: 5 },
    upstreamLimits: { streamIdleMs: 300, bufferedMs: 2000, maxEventChars: 100_000 },
  });
  customer = await world.customer();
});
afterAll(async () => {
  const wrong = await world.witness.faults();
  await world.close();
  expect(wrong).toEqual([]);
});

const idOf = (response: Response) => response.headers.get('x-svc-request-id') ?? '';
const costOf = (response: Response) => BigInt(response.headers.get('x-svc-cost-nanousd') ?? '-1');
/** 429s without a pause, so that nobody waits. */
const soon = { 'retry-after-ms': '1' };

async function chat(stream: boolean, more: { headers?: Record<string, string>; model?: string } = {}) {
  const { path, body } = wires.chat;
  const { model = 'responses', headers = {} } = more;
  const response = await world.ask(path, { customer, body: body(model, stream), headers });
  const text = await response.text();
  return { response, text, row: await world.witness.row(idOf(response)) };
}

describe('a stream that its provider breaks off', () => {
  const say = { text: 'One two three four five six.', usage: { input: 11, output: 7 } };
  // Of OpenAI's chat wire: a role, three pieces, why it ended, the usage, [DONE].
  it.each<[string, ProviderReply, bigint]>([
    ['in the middle costs nothing', { cutAfter: 3 }, 0n],
    ['in the middle, in good order, costs nothing', { endAfter: 3 }, 0n],
    ['after its end and before its usage costs nothing', { cutAfter: 5 }, 0n],
    ['after its usage costs what that says', { cutAfter: 6 }, nanoOf({ fresh: 11, output: 7 })],
    ['in the middle with usage so far costs nothing', { cutAfter: 3, say: { ...say, usageAt: 'always' } }, 0n],
  ])('%s', async (_, reply, cost) => {
    world.provider.script([{ say, ...reply }]);
    const { response, text, row } = await chat(true, { model: 'chat' });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-svc-cost-nanousd')).toBeNull();
    expect(text).toContain('One two');
    expect(text).toMatch(/data: \{"error":\{/);
    expect(text).not.toContain('[DONE]');
    expect({ cost: row.cost, outcome: row.outcome }).toEqual({ cost, outcome: 'failed' });
    expect(world.provider.requests.length, 'nothing is asked again once something was sent').toBeGreaterThan(0);
  });

  it('before anything was sent is asked again, and billed once', async () => {
    world.provider.script([{ say, cutAfter: 0 }, { say }]);
    const before = world.provider.requests.length;
    const { text, row } = await chat(true, { model: 'chat' });
    expect(text).toContain('[DONE]');
    expect(world.provider.requests.length - before).toBe(2);
    expect(row.cost).toBe(nanoOf({ fresh: 11, output: 7 }));
  });

  it('by saying nothing more is ended after the idle limit, and costs nothing', async () => {
    world.provider.script([{ say, stallAfter: 3 }]);
    const { text, row } = await chat(true, { model: 'chat' });
    expect(text).toMatch(/"code":"upstream_timeout"/);
    expect({ cost: row.cost, ended: row.ended }).toEqual({ cost: 0n, ended: 'released' });
  });

  it.each([
    ['a line that is no JSON', 'data: {"oh": no\n\n'],
    ['one event larger than the limit', `data: {"choices":[{"delta":{"content":"${'x'.repeat(200_000)}"}}]}\n\n`],
    ['an error of its own', 'data: {"error":{"message":"Overloaded","type":"server_error"}}\n\n'],
  ])('by %s costs nothing and says so in-band', async (_, body) => {
    const start = 'data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hm"},"finish_reason":null}]}\n\n';
    for (const model of ['chat', 'chat-other']) {
      world.provider.script([{ raw: { body: start + body } }]);
      const { text, row } = await chat(true, { model });
      expect(text).toMatch(/data: \{"error":\{/);
      expect({ cost: row.cost, ended: row.ended }).toEqual({ cost: 0n, ended: 'released' });
    }
  });
});

describe('a provider that refuses for a while', () => {
  it.each([429, 500, 503, 529])('with %i is asked again, and the answer is billed once', async (status) => {
    for (const stream of [false, true]) {
      world.provider.script([{ status, headers: soon }, { status, headers: soon }, { say: { text: 'Here.' } }]);
      const before = world.provider.requests.length;
      const { response, text, row } = await chat(stream, { model: 'claude' });
      expect(response.status, text).toBe(200);
      expect(world.provider.requests.length - before).toBe(3);
      expect(row).toMatchObject({ cost: nanoOf({ fresh: 10, output: 2 }), reason: 'as_requested', ended: 'settled' });
      if (!stream) expect(costOf(response)).toBe(row.cost);
    }
  });

  it('for good makes way for another model, which is billed at its own price', async () => {
    for (const stream of [false, true]) {
      world.provider.script(({ model }) =>
        model === 'upstream-chat' ? { status: 500, headers: soon } : { say: { text: 'Here I am.' } },
      );
      const { response, text, row } = await chat(stream, { model: 'chat' });
      expect(response.status, text).toBe(200);
      expect(response.headers.get('x-svc-effective-model')).toBe('chat-other');
      expect(response.headers.get('x-svc-receipt-reason')).toBe('provider_failover');
      expect(row).toMatchObject({
        requested_model: 'chat',
        effective_model: 'chat-other',
        cost: nanoOf({ fresh: 10, output: 3 }, otherRates),
      });
    }
  });

  it('with nothing left is an error that costs nothing and may be tried again', async () => {
    world.provider.script([{ status: 500, headers: soon }]);
    for (const stream of [false, true]) {
      const { response, row } = await chat(stream, { model: 'claude' });
      expect(response.status).toBe(502);
      expect(costOf(response)).toBe(0n);
      expect(response.headers.get('x-should-retry')).toBeNull();
      expect(row).toMatchObject({ cost: 0n, ended: 'released', outcome: 'failed' });
    }
  });

  it('lets the OpenAI client try again under its key, and bills it once', async () => {
    for (const status of [429, 500]) {
      // One more than the gateway itself tries.
      const failures = Array.from({ length: 3 }, () => ({ status, headers: soon }));
      world.provider.script([...failures, { say: { text: 'At last.' } }]);
      const someone = await world.customer();
      const openai = new OpenAI({ apiKey: someone.secret, baseURL: `${world.url}/v1`, maxRetries: 3 });
      const headers = { 'idempotency-key': crypto.randomUUID() };
      const create = () =>
        openai.chat.completions.create(wires.chat.body('responses', false) as never, { headers }) as Promise<OpenAI.ChatCompletion>;
      const answer = await create();
      expect(answer.choices[0]?.message.content).toBe('At last.');
      const again = await create();
      expect(again).toEqual(answer);
      const rows = (await world.witness.rows()).filter(({ key_id }) => key_id === someone.keyId);
      expect(rows.map(({ cost }) => cost).filter((cost) => cost > 0n)).toEqual([nanoOf({ fresh: 10, output: 2 })]);
    }
  });
});

describe('usage', () => {
  const usage = { input: 1000, cacheRead: 300, output: 40 };
  const writes = { cacheWrite: 150 };
  const expected = (model: string) =>
    model === 'gemini'
      ? nanoOf({ fresh: 700, cacheRead: 300, output: 40 })
      : nanoOf({ fresh: 550, cacheRead: 300, cacheWrite: 150, output: 40 });
  const say = { text: 'Some words to be paid for.' };

  describe.each(pairs)('on the %s wire from %s', (wire, model) => {
    const asked = async (stream: boolean) => {
      const { path, body } = wires[wire];
      const response = await world.ask(path, { customer, body: body(model, stream) });
      const text = await response.text();
      expect(response.status, text).toBe(200);
      return { response, text, row: await world.witness.row(idOf(response)) };
    };
    const caching = model === 'gemini' ? usage : { ...usage, ...writes };

    it.each(['usual', 'twice', 'late', 'finish', 'always'] as const)('is billed once when it comes %s', async (usageAt) => {
      world.provider.script([{ say: { ...say, usage: caching, usageAt } }]);
      const { row, text } = await asked(true);
      expect(row.cost, text).toBe(expected(model));
      expect(row.charged).toBe(row.cost);
    });

    it('is billed the same in one piece', async () => {
      world.provider.script([{ say: { ...say, usage: caching } }]);
      const { response, row } = await asked(false);
      expect(costOf(response)).toBe(expected(model));
      expect(row.cost).toBe(expected(model));
    });

    it('is estimated where the provider never says, and never nothing', async () => {
      for (const stream of [true, false]) {
        world.provider.script([{ say: { ...say, usageAt: 'missing' } }]);
        const { row } = await asked(stream);
        expect(row.cost).toBeGreaterThan(0n);
        expect(row.tokens_output).toBe(BigInt(Math.ceil(say.text.length / 4)));
      }
    });
  });
});
