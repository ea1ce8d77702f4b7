import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import OpenAI from 'openai';
import { pairs, wires } from '../support/gateway/asks.ts';
import type { ProviderReply } from '../support/gateway/provider.ts';
import { type Customer, gatewayWorld, nanoOf, otherRates } from '../support/gateway/world.ts';
import { until } from '../support/until.ts';

type World = Awaited<ReturnType<typeof gatewayWorld>>;
/** Waits as long as it takes: no time limit ends what goes well here, however slow the machine is. */
let world: World;
/** Short time limits. */
let hasty: World;
/** Waits for providers as long as it takes, and for no caller that takes nothing. */
let patient: World;
let customer: Customer;

beforeAll(async () => {
  const fallbacks = new Map([['chat', ['chat-other']]]);
  world = await gatewayWorld({
    fallbacks,
    limits: { retries: 2, drainSecs: 600, drainIdleSecs: 600 },
    readerMs: 600_000,
    upstreamLimits: { streamIdleMs: 600_000, bufferedMs: 600_000, maxEventChars: 100_000 },
  });
  hasty = await gatewayWorld({
    fallbacks,
    limits: { retries: 2, drainSecs: 1, drainIdleSecs: 600 },
    readerMs: 400,
    upstreamLimits: { streamIdleMs: 1000, bufferedMs: 600_000 },
  });
  patient = await gatewayWorld({
    limits: { retries: 0, drainSecs: 600, drainIdleSecs: 600 },
    readerMs: 400,
    upstreamLimits: { streamIdleMs: 600_000, bufferedMs: 600_000 },
  });
  customer = await world.customer();
});
afterAll(async () => {
  const worlds = [world, hasty, patient];
  const wrong = (await Promise.all(worlds.map(({ witness }) => witness.faults()))).flat();
  for (const one of worlds) await one.close();
  expect(wrong).toEqual([]);
});

const idOf = (response: Response) => response.headers.get('x-svc-request-id') ?? '';
const costOf = (response: Response) => BigInt(response.headers.get('x-svc-cost-nanousd') ?? '-1');
/** 429s without a retry delay. */
const soon = { 'retry-after-ms': '1' };

async function chat(stream: boolean, more: { headers?: Record<string, string>; model?: string } = {}) {
  const { path, body } = wires.chat;
  const { model = 'responses', headers = {} } = more;
  const response = await world.ask(path, { customer, body: body(model, stream), headers });
  const text = await response.text();
  return { response, text, row: await world.witness.row(idOf(response)) };
}

/** A stream on OpenAI's chat wire, made at once: 21 tokens in, 9 out. @param pieces of 50 KB */
function longStream(pieces: number): string {
  const chunk = (choices: object[], more: object = {}) =>
    `data: ${JSON.stringify({ id: 'a', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more })}\n\n`;
  const choice = (delta: object, finish_reason: string | null = null) =>
    chunk([{ index: 0, delta, finish_reason }]);
  const usage = { prompt_tokens: 21, completion_tokens: 9, total_tokens: 30 };
  return (
    choice({ role: 'assistant', content: '' }) +
    choice({ content: 'word '.repeat(10_000) }).repeat(pieces) +
    choice({}, 'stop') +
    chunk([], { usage }) +
    'data: [DONE]\n\n'
  );
}

describe('a stream that its provider breaks off', () => {
  const say = { text: 'One two three four five six.', usage: { input: 11, output: 7 } };
  // Frames on OpenAI's chat wire: a role, three pieces, the finish reason, the usage, [DONE].
  it.each<[string, ProviderReply, bigint]>([
    ['in the middle costs nothing', { cutAfter: 3 }, 0n],
    ['in the middle, in good order, costs nothing', { endAfter: 3 }, 0n],
    ['after its end and before its usage costs nothing', { cutAfter: 5 }, 0n],
    [
      'in the middle with usage so far costs nothing',
      { cutAfter: 3, say: { ...say, usageAt: 'always' } },
      0n,
    ],
  ])('%s', async (_, reply, cost) => {
    world.provider.script([{ say, ...reply }]);
    const { response, text, row } = await chat(true, { model: 'chat' });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-svc-cost-nanousd')).toBeNull();
    expect(text).toContain('One two');
    expect(text).toMatch(/data: \{"error":\{/);
    expect(text).not.toContain('[DONE]');
    expect({ cost: row.cost, outcome: row.outcome }).toEqual({ cost, outcome: 'failed' });
    expect(world.provider.requests.length, 'nothing is asked again once something was sent').toBeGreaterThan(
      0,
    );
  });

  it.each(pairs)('after its usage is complete: %s from %s', async (wire, model) => {
    const { path, body } = wires[wire];
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const ask = async () => {
      const response = await world.ask(path, { customer, body: body(model, true), headers });
      return { id: idOf(response), text: await response.text() };
    };
    world.provider.script([{ say, cutAfter: 'usage' }]);
    const { id, text } = await ask();
    expect(text).toContain('One two');
    expect(text).not.toMatch(/"error":\{|event: error|response\.failed/);
    const last = {
      chat: '[DONE]',
      completions: '[DONE]',
      messages: 'message_stop',
      responses: 'response.completed',
    };
    expect(text.split(last[wire as keyof typeof last]).length, 'it ends once').toBe(
      wire === 'chat' || wire === 'completions' ? 2 : 3,
    );
    expect(await world.witness.row(id)).toMatchObject({
      cost: nanoOf({ fresh: 11, output: 7 }),
      outcome: 'completed',
    });
    expect((await ask()).text, 'under its key, again').toBe(text);
  });

  it('before anything was sent is retried, and billed once', async () => {
    world.provider.script([{ say, cutAfter: 0 }, { say }]);
    const before = world.provider.requests.length;
    const { text, row } = await chat(true, { model: 'chat' });
    expect(text).toContain('[DONE]');
    expect(world.provider.requests.length - before).toBe(2);
    expect(row.cost).toBe(nanoOf({ fresh: 11, output: 7 }));
  });

  it('by going silent is ended after the idle limit, and costs nothing', async () => {
    hasty.provider.script([{ say, stallAfter: 3 }]);
    const { path, body } = wires.chat;
    const response = await hasty.ask(path, { customer: await hasty.customer(), body: body('chat', true) });
    const text = await response.text();
    const row = await hasty.witness.row(idOf(response));
    expect(text).toMatch(/"code":"upstream_timeout"/);
    expect({ cost: row.cost, ended: row.ended }).toEqual({ cost: 0n, ended: 'released' });
  });

  it.each([
    ['a line that is no JSON', 'data: {"oh": no\n\n'],
    [
      'one event larger than the limit',
      `data: {"choices":[{"delta":{"content":"${'x'.repeat(200_000)}"}}]}\n\n`,
    ],
    ['an error of its own', 'data: {"error":{"message":"Overloaded","type":"server_error"}}\n\n'],
  ])('by %s costs nothing and says so in-band', async (_, body) => {
    const start =
      'data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hm"},"finish_reason":null}]}\n\n';
    for (const model of ['chat', 'chat-other']) {
      world.provider.script([{ raw: { body: start + body } }]);
      const { text, row } = await chat(true, { model });
      expect(text).toMatch(/data: \{"error":\{/);
      expect({ cost: row.cost, ended: row.ended }).toEqual({ cost: 0n, ended: 'released' });
    }
  });
});

describe('two answers of a provider in one stream', () => {
  const call = { name: 'look', arguments: { at: 'a long enough text to be sent in pieces' } };

  describe.each(pairs)('on the %s wire from %s', (wire, model) => {
    const broken = {
      id: 'said-1',
      ...(wire === 'completions' ? { text: 'Broken off here.' } : { calls: [call] }),
    };
    const whole = { id: 'said-2', text: 'A whole answer.' };

    it.each([4, 5])(
      'are an error in the stream, which costs nothing (%i frames of the first)',
      async (frames) => {
        world.provider.script([{ before: { say: { ...broken, piece: 4 }, frames }, say: whole }]);
        const { path, body } = wires[wire];
        const response = await world.ask(path, { customer, body: body(model, true) });
        const text = await response.text();
        const row = await world.witness.row(idOf(response));
        expect(text).toContain('began a second');
        expect(text).not.toContain('whole');
        expect(text).not.toContain('[DONE]');
        expect({ cost: row.cost, outcome: row.outcome }).toEqual({ cost: 0n, outcome: 'failed' });
      },
    );
  });

  // Google's wire has nothing that ends an answer.
  it.each(pairs.filter(([, model]) => model !== 'gemini'))(
    'of which the first came to its end are that one, on the %s wire from %s',
    async (wire, model) => {
      const first = { id: 'said-1', text: 'A whole answer.', usage: { input: 11, output: 7 } };
      world.provider.script([
        { before: { say: first, frames: 100 }, say: { id: 'said-2', text: 'Another.' } },
      ]);
      const { path, body } = wires[wire];
      const response = await world.ask(path, { customer, body: body(model, true) });
      expect(await response.text()).not.toContain('Another');
      const row = await world.witness.row(idOf(response));
      expect(row.cost).toBe(nanoOf({ fresh: 11, output: 7 }));
    },
  );
});

describe('a provider that fails temporarily', () => {
  it.each([429, 500, 503, 529])('with %i is retried, and the answer is billed once', async (status) => {
    for (const stream of [false, true]) {
      world.provider.script([
        { status, headers: soon },
        { status, headers: soon },
        { say: { text: 'Here.' } },
      ]);
      const before = world.provider.requests.length;
      const { response, text, row } = await chat(stream, { model: 'claude' });
      expect(response.status, text).toBe(200);
      expect(world.provider.requests.length - before).toBe(3);
      expect(row).toMatchObject({
        cost: nanoOf({ fresh: 10, output: 2 }),
        reason: 'as_requested',
        ended: 'settled',
      });
      if (!stream) expect(costOf(response)).toBe(row.cost);
    }
  });

  it('and keeps failing is replaced by a fallback, which is billed at its own price', async () => {
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

  it('without a fallback is a free, retryable error', async () => {
    world.provider.script([{ status: 500, headers: soon }]);
    for (const stream of [false, true]) {
      const { response, row } = await chat(stream, { model: 'claude' });
      expect(response.status).toBe(502);
      expect(costOf(response)).toBe(0n);
      expect(response.headers.get('x-should-retry')).toBeNull();
      expect(row).toMatchObject({ cost: 0n, ended: 'released', outcome: 'failed' });
    }
  });

  it('lets the OpenAI client retry with its idempotency key, and bills it once', async () => {
    for (const status of [429, 500]) {
      // One more than the gateway itself tries.
      const failures = Array.from({ length: 3 }, () => ({ status, headers: soon }));
      world.provider.script([...failures, { say: { text: 'At last.' } }]);
      const someone = await world.customer();
      const openai = new OpenAI({ apiKey: someone.secret, baseURL: `${world.url}/v1`, maxRetries: 3 });
      const headers = { 'idempotency-key': crypto.randomUUID() };
      const create = () =>
        openai.chat.completions.create(wires.chat.body('responses', false) as never, {
          headers,
        }) as Promise<OpenAI.ChatCompletion>;
      const answer = await create();
      expect(answer.choices[0]?.message.content).toBe('At last.');
      const again = await create();
      expect(again).toEqual(answer);
      const rows = (await world.witness.rows()).filter(({ key_id }) => key_id === someone.keyId);
      expect(rows.map(({ cost }) => cost).filter((cost) => cost > 0n)).toEqual([
        nanoOf({ fresh: 10, output: 2 }),
      ]);
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
    const request = async (stream: boolean) => {
      const { path, body } = wires[wire];
      const response = await world.ask(path, { customer, body: body(model, stream) });
      const text = await response.text();
      expect(response.status, text).toBe(200);
      return { response, text, row: await world.witness.row(idOf(response)) };
    };
    const caching = model === 'gemini' ? usage : { ...usage, ...writes };

    it.each(['usual', 'twice', 'late', 'finish', 'always'] as const)(
      'is billed once when it comes %s',
      async (usageAt) => {
        world.provider.script([{ say: { ...say, usage: caching, usageAt } }]);
        const { row, text } = await request(true);
        expect(row.cost, text).toBe(expected(model));
        expect(row.charged).toBe(row.cost);
      },
    );

    it('is billed the same in one piece', async () => {
      world.provider.script([{ say: { ...say, usage: caching } }]);
      const { response, row } = await request(false);
      expect(costOf(response)).toBe(expected(model));
      expect(row.cost).toBe(expected(model));
    });

    it('is estimated when the provider does not report it, and is never zero', async () => {
      for (const stream of [true, false]) {
        world.provider.script([{ say: { ...say, usageAt: 'missing' } }]);
        const { row } = await request(stream);
        expect(row.cost).toBeGreaterThan(0n);
        expect(row.tokens_output).toBe(BigInt(Math.ceil(say.text.length / 4)));
      }
    });

    it('of zero for an answer with text is estimated too', async () => {
      for (const stream of [true, false]) {
        world.provider.script([{ say: { ...say, usage: { input: 0, output: 0, reasoning: 0 } } }]);
        const { row } = await request(stream);
        expect(row.tokens_output).toBe(BigInt(Math.ceil(say.text.length / 4)));
        expect(row.tokens_fresh).toBeGreaterThan(0n);
      }
    });

    it('with a zero in one of its counts is settled as reported', async () => {
      for (const stream of [true, false]) {
        world.provider.script([{ say: { ...say, usage: { input: 9, output: 0, reasoning: 0 } } }]);
        const { row } = await request(stream);
        expect(row.cost).toBe(nanoOf({ fresh: 9 }));
      }
    });
  });
});

describe('embeddings', () => {
  it.each(['chat', 'gemini'])('of %s are never free', async (model) => {
    const { path, body } = wires.embeddings;
    for (const usageAt of ['usual', 'missing'] as const) {
      world.provider.script([{ say: { usage: { input: 40 }, usageAt } }]);
      const response = await world.ask(path, {
        customer,
        body: body(model, false, 'What is to be embedded here?'),
      });
      expect(response.status, await response.clone().text()).toBe(200);
      const row = await world.witness.row(idOf(response));
      expect(costOf(response)).toBe(row.cost);
      if (usageAt === 'usual') expect(row.cost).toBe(nanoOf({ fresh: 40 }));
      else expect(row.cost).toBeGreaterThan(0n);
    }
  });
});

describe('a caller that disconnects', () => {
  const say = { text: 'One two three four five six seven eight.', usage: { input: 21, output: 9 } };
  const real = nanoOf({ fresh: 21, output: 9 });

  /** Sends a request of a new caller, and disconnects when `leave` resolves. Resolves when the gateway has noticed it. */
  async function leaves(stream: boolean, leave: Promise<unknown>, at = world): Promise<Customer> {
    const someone = await at.customer();
    const leaving = new AbortController();
    const { path, body } = wires.chat;
    const answering = at.ask(path, { customer: someone, body: body('chat', stream), signal: leaving.signal });
    answering.then((response) => response.text()).catch(() => undefined);
    await leave;
    const before = at.left();
    leaving.abort();
    await until(() => at.left() > before);
    return someone;
  }

  it('during a stream is billed by the usage of the whole answer', async () => {
    const [sent, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    world.provider.script([
      {
        say,
        hold: (frame) => {
          if (frame !== 3) return undefined;
          sent.resolve();
          return goOn.promise;
        },
      },
    ]);
    const someone = await leaves(true, sent.promise);
    goOn.resolve();
    const row = await world.witness.rowOf(someone);
    expect(row).toMatchObject({ cost: real, outcome: 'client_gone', ended: 'settled', tokens_output: 9n });
  });

  it.each([true, false])('before the first byte is billed by the usage (stream %s)', async (stream) => {
    const [came, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    world.provider.script(async () => {
      came.resolve();
      await goOn.promise;
      return { say };
    });
    const someone = await leaves(stream, came.promise);
    goOn.resolve();
    // Not only when the time to read on is up, which is ten minutes here.
    const row = await world.witness.rowOf(someone);
    expect(row).toMatchObject({ cost: real, outcome: 'client_gone', ended: 'settled' });
  });

  it('for longer than the drain limit is billed by what was read', async () => {
    const sent = Promise.withResolvers<void>();
    const hold = (frame: number) => {
      if (frame === 3) sent.resolve();
      return undefined;
    };
    hasty.provider.script([{ say: { ...say, text: 'word '.repeat(1000), piece: 4 }, frameMs: 40, hold }]);
    const row = await hasty.witness.rowOf(await leaves(true, sent.promise, hasty));
    expect(row).toMatchObject({ outcome: 'client_gone', ended: 'settled' });
    expect(row.tokens_fresh).toBeGreaterThan(0n);
    expect(row.tokens_output).toBeGreaterThan(0n);
    // The whole would take a minute.
    expect(Number(row.tokens_output)).toBeLessThan(1000);
    await expect.poll(() => hasty.provider.open).toBe(0);
  });

  it('for longer than that before the answer began is billed by the request', async () => {
    const came = Promise.withResolvers<void>();
    hasty.provider.script(() => {
      came.resolve();
      return { stallAfter: 'head' };
    });
    const row = await hasty.witness.rowOf(await leaves(false, came.promise, hasty));
    expect(row).toMatchObject({ outcome: 'client_gone', ended: 'settled', tokens_output: 0n });
    expect(row.cost).toBeGreaterThan(0n);
  });

  it('without closing its connection, and stops reading, is not waited for', async () => {
    const end = Promise.withResolvers<void>();
    patient.provider.script([{ raw: { body: longStream(600) } }]);
    const someone = await patient.customer();
    const body = JSON.stringify(wires.chat.body('chat', true));
    const socket = connect(Number(new URL(patient.url).port), '127.0.0.1');
    socket
      .on('close', end.resolve)
      .on('error', () => undefined)
      .pause();
    socket.write(
      `POST ${wires.chat.path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${someone.secret}\r\n` +
        `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    const row = await patient.witness.rowOf(someone);
    expect(row).toMatchObject({ cost: real, outcome: 'client_gone', ended: 'settled' });
    socket.resume();
    await end.promise;
  });

  it.each([true, false])(
    'gets the answer that it missed, for nothing, under the same key (stream %s)',
    async (stream) => {
      const [came, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      world.provider.script(async () => {
        came.resolve();
        await goOn.promise;
        return { say };
      });
      const someone = await world.customer();
      const { path, body } = wires.chat;
      const request = {
        customer: someone,
        body: body('chat', stream),
        headers: { 'idempotency-key': 'mine' },
      };
      const leaving = new AbortController();
      world.ask(path, { ...request, signal: leaving.signal }).catch(() => undefined);
      await came.promise;
      const early = await world.ask(path, request);
      expect(early.status).toBe(409);
      expect(await early.text()).toContain('request_in_progress');
      const before = world.left();
      leaving.abort();
      await until(() => world.left() > before);
      goOn.resolve();
      expect((await world.witness.rowOf(someone)).cost).toBe(real);
      const again = await world.ask(path, request);
      expect(again.headers.get('x-svc-idempotent-replay')).toBe('true');
      const text = await again.text();
      expect(text).toContain('six seven');
      if (stream) expect(text).toContain('[DONE]');
      expect((await world.witness.rows()).filter(({ key_id }) => key_id === someone.keyId).length).toBe(1);
    },
  );

  it('before the answer was complete gets idempotency_answer_lost from then on', async () => {
    const sent = Promise.withResolvers<void>();
    const hold = (frame: number) => {
      if (frame === 3) sent.resolve();
      return undefined;
    };
    hasty.provider.script([{ say: { ...say, text: 'word '.repeat(1000), piece: 4 }, frameMs: 40, hold }]);
    const someone = await hasty.customer();
    const { path, body } = wires.chat;
    const request = { customer: someone, body: body('chat', true), headers: { 'idempotency-key': 'mine' } };
    const leaving = new AbortController();
    hasty
      .ask(path, { ...request, signal: leaving.signal })
      .then((response) => response.text())
      .catch(() => undefined);
    await sent.promise;
    leaving.abort();
    await hasty.witness.rowOf(someone);
    const again = await hasty.ask(path, request);
    expect(again.status).toBe(409);
    expect(again.headers.get('x-should-retry')).toBe('false');
    expect(await again.text()).toContain('idempotency_answer_lost');
  });

  it('whose provider then breaks off owes nothing', async () => {
    const [sent, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    world.provider.script([
      {
        say,
        cutAfter: 4,
        hold: (frame) => {
          if (frame !== 3) return undefined;
          sent.resolve();
          return goOn.promise;
        },
      },
    ]);
    const someone = await leaves(true, sent.promise);
    goOn.resolve();
    expect(await world.witness.rowOf(someone)).toMatchObject({
      cost: 0n,
      ended: 'released',
      outcome: 'client_gone',
    });
  });

  it('is not confused with a slow reader, which gets the whole answer', async () => {
    world.provider.script([{ raw: { body: longStream(40) } }]);
    const { path, body } = wires.chat;
    const response = await world.ask(path, { customer, body: body('chat', true) });
    let got = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      got += chunk;
      if (got.length < 1_000_000) await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(got).toContain('[DONE]');
    expect((await world.witness.row(idOf(response))).cost).toBe(real);
  });
});

describe('many at once', () => {
  it.each(['cap', 'balance'])('never spend more than the %s', async (what) => {
    world.provider.script([{ say: { text: 'Yes.', usage: { input: 30, output: 100 } } }]);
    // Each may cost up to 200 tokens of output; there is money for some ten of them.
    const money = nanoOf({ fresh: 300, output: 200 }) * 10n;
    const someone = await world.customer(what === 'cap' ? { cap: money } : { credit: money });
    const { path, body } = wires.chat;
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const response = await world.ask(path, { customer: someone, body: body('chat', false) });
        const { error } = (await response.json()) as { error?: { type: string } };
        return { status: response.status, cost: costOf(response), type: error?.type };
      }),
    );
    const paid = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status === 402);
    expect(paid.length + refused.length).toBe(100);
    expect(paid.length).toBeGreaterThan(2);
    expect(refused.length).toBeGreaterThan(0);
    const type = what === 'cap' ? 'key_spend_cap_exceeded' : 'insufficient_allowance';
    expect(new Set(refused.map((one) => one.type))).toEqual(new Set([type]));
    expect(refused.every(({ cost }) => cost === 0n)).toBe(true);
    const spent = paid.reduce((sum, { cost }) => sum + cost, 0n);
    expect(spent).toBe(nanoOf({ fresh: 30, output: 100 }) * BigInt(paid.length));
    const { ledger } = world.witness.books;
    const key = (await ledger.keys(someone.accountId))[0];
    expect({ spent: key?.spent, held: key?.held }).toEqual({ spent, held: 0n });
    expect(spent).toBeLessThanOrEqual(money);
    const { remaining } = await ledger.balance(someone.accountId);
    expect(remaining).toBe((what === 'cap' ? 10n ** 12n : money) - spent);
  });

  it('pay no more than their holds: the operator pays the rest, and a ceiling is hard', async () => {
    world.provider.script([{ say: { text: 'Much.', usage: { input: 50_000, output: 9_000 } } }]);
    for (const stream of [false, true]) {
      const { path, body } = wires.chat;
      const ceiling = 2_000_000n;
      const response = await world.ask(path, {
        customer,
        body: body('chat', stream),
        headers: { 'x-svc-max-cost-nanousd': String(ceiling) },
      });
      await response.text();
      const row = await world.witness.row(idOf(response));
      expect(row.cost).toBe(nanoOf({ fresh: 50_000, output: 9_000 }));
      expect(row.charged).toBe(row.amount);
      expect(row.charged).toBeLessThanOrEqual(ceiling);
      expect(row.overrun).toBe(row.cost - row.charged);
      if (!stream) expect(costOf(response)).toBe(row.charged);
    }
    const { path, body } = wires.chat;
    const low = { 'x-svc-max-cost-nanousd': '1000' };
    const before = world.provider.requests.length;
    const refused = await world.ask(path, { customer, body: body('chat', false), headers: low });
    expect(refused.status).toBe(402);
    expect(world.provider.requests.length).toBe(before);
    expect(costOf(refused)).toBe(0n);
  });
});
