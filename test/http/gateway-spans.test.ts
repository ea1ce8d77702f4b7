/** Spans of the gateway: one for every request that costs money, with its result. */
import { request as httpRequest } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { pairs, wires } from '../support/gateway/asks.ts';
import { gatewayWorld, nanoOf, type WorldOptions } from '../support/gateway/world.ts';
import { transcriptLines, createSpanRecorder } from '../support/span-recorder.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

async function start(options: WorldOptions = {}, kept?: Parameters<typeof createSpanRecorder>[0]) {
  const seen = createSpanRecorder(kept);
  const world = await gatewayWorld({ watch: seen.tracer, ...options });
  undo.push(() => world.close());
  const customer = await world.customer();
  /** On the chat wire. */
  const asks = async (
    model: string,
    stream: boolean,
    { body = {}, ...more }: { body?: object; signal?: AbortSignal; headers?: Record<string, string> } = {},
  ) => {
    const { path, body: usual } = wires.chat;
    return await world.ask(path, { customer, body: { ...usual(model, stream), ...body }, ...more });
  };
  const gatewaySpans = () => seen.spansOf('gateway');
  /** As soon as all of them are over. */
  const endings = async (count: number) => {
    await expect.poll(() => seen.ended.length).toBe(count);
    return seen.spanResults('gateway');
  };
  return { ...seen, ...world, customer, newCustomer: world.customer, asks, gatewaySpans, endings };
}

const trace = (span: number) => `00-${'a'.repeat(32)}-${String(span).padStart(16, '0')}-01`;
const both = [false, true];
const usage = { input: 40, output: 7, cacheRead: 15 };

describe('spans of gateway requests', () => {
  it('have all known facts, on every wire', async () => {
    const {
      provider,
      ask,
      customer,
      gatewaySpans,
      endings,
      witness,
      expectAllEnded: expectWhole,
    } = await start();
    provider.script([{ say: { text: 'Hello there, you.', usage } }]);
    const issued: { readonly wire: string; readonly stream: boolean; readonly id: string }[] = [];
    for (const [wire, model] of pairs)
      for (const stream of both) {
        const { path, body } = wires[wire];
        const response = await ask(path, { customer, body: body(model, stream) });
        await response.text();
        issued.push({ wire, stream, id: response.headers.get('x-svc-request-id') ?? '' });
      }
    expect(await endings(issued.length)).toEqual(issued.map(() => 'ok'));
    for (const [index, { wire, stream, id }] of issued.entries()) {
      const work = gatewaySpans()[index];
      const model = pairs[Math.floor(index / 2)]?.[1] ?? '';
      expect([work?.id, work?.result?.status], id).toEqual([id, 200]);
      expect(work?.attributes, `${wire} ${model} ${stream}`).toEqual({
        wire,
        operation: wire === 'completions' ? 'text_completion' : 'chat',
        stream,
        keyId: customer.keyId,
        accountId: customer.accountId,
        requestedModel: model,
        effectiveModel: model,
        provider: `at-${model}`,
        admissionMs: expect.any(Number),
        promptTokens: 40,
        cachedTokens: 15,
        completionTokens: 7,
        costNanousd: nanoOf({ fresh: 25, cacheRead: 15, output: 7 }),
        finish: 'stop',
        ...(stream ? { firstTokenMs: expect.any(Number) } : {}),
      });
      expect(work?.attributes.costNanousd).toBe((await witness.row(id)).charged);
      expect([work?.transcript, work?.parent, work?.traceparent]).toEqual([undefined, undefined, undefined]);
    }
    expectWhole();
  });

  it('for embeddings too', async () => {
    const { ask, customer, gatewaySpans, endings, provider } = await start();
    provider.script([{ say: { vectors: [[1, 2, 3]], usage: { input: 9 } } }]);
    const { path, body } = wires.embeddings;
    await (await ask(path, { customer, body: body('chat', false) })).text();
    expect(await endings(1)).toEqual(['ok']);
    expect(gatewaySpans()[0]?.attributes).toEqual({
      wire: 'embeddings',
      operation: 'embeddings',
      stream: false,
      keyId: customer.keyId,
      accountId: customer.accountId,
      requestedModel: 'chat',
      effectiveModel: 'chat',
      provider: 'at-chat',
      admissionMs: expect.any(Number),
      promptTokens: 9,
      costNanousd: nanoOf({ fresh: 9 }),
    });
  });

  it('have no tokens that a provider did not report, but the cost', async () => {
    const { provider, asks, gatewaySpans, endings } = await start();
    provider.script([{ say: { text: 'Hello there.', usageAt: 'missing' } }]);
    for (const stream of both) await (await asks('chat', stream)).text();
    expect(await endings(2)).toEqual(['ok', 'ok']);
    for (const { attributes: facts } of gatewaySpans()) {
      expect(facts).not.toHaveProperty('promptTokens');
      expect(facts).not.toHaveProperty('completionTokens');
      expect(facts.costNanousd).toBeGreaterThan(0n);
    }
  });

  it('name the effective model and provider when a fallback served', async () => {
    const { provider, asks, gatewaySpans, endings } = await start({
      limits: { retries: 0 },
      fallbacks: new Map([['chat', ['chat-other']]]),
    });
    provider.script(({ model }) =>
      model === 'upstream-chat' ? { status: 500 } : { say: { text: 'Hello.', usage } },
    );
    await (await asks('auto', true)).text();
    expect(await endings(1)).toEqual(['ok']);
    expect(gatewaySpans()[0]?.attributes).toMatchObject({
      requestedModel: 'auto',
      effectiveModel: 'chat-other',
      provider: 'at-chat-other',
    });
  });

  it('do not exist for routes that are free of charge', async () => {
    const { url, started: begun } = await start();
    for (const path of ['/health', '/v1/catalog', '/v1/models', '/v1/nothing', '/openapi.json'])
      await (await fetch(url + path)).text();
    await (await fetch(`${url}/v1/chat/completions`)).text();
    expect(begun).toEqual([]);
  });
});

describe('spans of refused and failed gateway requests', () => {
  it('that are refused before the upstream request', async () => {
    const world = await start({ limits: { maxBodyBytes: 2000 } });
    const { ask, asks, customer: rich, url, gatewaySpans, endings } = world;
    const poor = await world.newCustomer({ credit: 1n });
    const { path, body } = wires.chat;
    await fetch(url + path, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } });
    await ask(path, { customer: { ...rich, secret: 'wrong' }, body: body('chat', false) });
    await asks('nothing', false);
    await asks('chat', false, { body: { messages: 5 } });
    await ask(path, { customer: poor, body: body('chat', true) });
    await asks('chat', true, { headers: { 'x-svc-max-cost-nanousd': '1' } });
    await asks('chat', false, { body: { user: 'x'.repeat(3000) } });
    await asks('chat', false, { headers: { 'content-type': 'text/plain' } });
    expect(await endings(8)).toEqual([
      'refused invalid_api_key',
      'refused invalid_api_key',
      'refused model_not_found',
      'refused invalid_request_error',
      'refused insufficient_quota',
      'refused cost_ceiling_exceeded',
      'refused body_too_large',
      'refused unsupported_media_type',
    ]);
    expect(gatewaySpans().map(({ result: ending }) => ending?.status)).toEqual([
      401, 401, 404, 400, 402, 402, 413, 415,
    ]);
    expect(gatewaySpans().map(({ attributes: facts }) => facts.keyId)).toEqual([
      undefined,
      undefined,
      ...[rich, rich, poor, rich, rich, rich].map(({ keyId }) => keyId),
    ]);
    for (const { attributes: facts } of gatewaySpans()) expect(facts).not.toHaveProperty('provider');
    expect(gatewaySpans()[2]?.attributes.requestedModel).toBe('nothing');
  });

  it('that are rate limited', async () => {
    const { asks, endings, provider } = await start({ limits: { requestsPerMinute: 1 } });
    provider.script([{ say: { text: 'Hello.' } }]);
    await (await asks('chat', false)).text();
    await (await asks('chat', false)).text();
    expect(await endings(2)).toEqual(['ok', expect.stringMatching(/^refused rate_limit/)]);
  });

  it('that a provider refuses or fails', async () => {
    const { provider, asks, gatewaySpans, endings } = await start({ limits: { retries: 0 } });
    for (const stream of both) {
      provider.script([{ status: 400 }]);
      await (await asks('chat', stream)).text();
      provider.script([{ status: 500 }]);
      await (await asks('chat', stream)).text();
    }
    const codes = await endings(4);
    expect(codes).toEqual([
      expect.stringMatching(/^refused [a-z_]+$/),
      expect.stringMatching(/^failed [a-z_]+$/),
      expect.stringMatching(/^refused [a-z_]+$/),
      expect.stringMatching(/^failed [a-z_]+$/),
    ]);
    expect(gatewaySpans().map(({ result: ending }) => ending?.status)).toEqual([400, 502, 400, 502]);
    for (const { attributes: facts } of gatewaySpans()) {
      expect(facts).toMatchObject({ provider: 'at-chat', effectiveModel: 'chat', costNanousd: 0n });
      expect(facts).not.toHaveProperty('completionTokens');
    }
  });

  it.each([...pairs])('a stream that breaks off (%s by way of %s)', async (wire, model) => {
    const { provider, ask, customer, gatewaySpans, endings } = await start({ limits: { retries: 0 } }, [
      'gateway',
    ]);
    provider.script([
      { say: { text: 'One two three four five six seven. '.repeat(10), usage }, cutAfter: 8 },
    ]);
    const { path, body } = wires[wire];
    await (await ask(path, { customer, body: body(model, true) })).text().catch(() => undefined);
    expect(await endings(1)).toEqual([expect.stringMatching(/^failed [a-z_]+$/)]);
    expect(gatewaySpans()[0]?.result?.status).toBe(200);
    expect(gatewaySpans()[0]?.attributes).toMatchObject({
      costNanousd: 0n,
      firstTokenMs: expect.any(Number),
    });
    expect(gatewaySpans()[0]?.attributes).not.toHaveProperty('completionTokens');
    expect(gatewaySpans().map(transcriptLines)).toEqual([
      [expect.stringMatching(/^user: .*Hello there\./), expect.stringMatching(/^assistant: One/)],
    ]);
  });

  it('whose caller disconnects: before the answer, during it, and during the upload', async () => {
    const { provider, asks, url, customer, gatewaySpans, endings, rows } = await startLeaving();
    provider.script([{ say: { text: 'Hello.', usage }, stallAfter: 'head' }]);
    const early = new AbortController();
    const issued = asks('chat', false, { signal: early.signal }).catch(() => undefined);
    await expect.poll(() => provider.requests.length).toBe(1);
    early.abort();
    await issued;
    await endings(1);
    provider.script([{ say: { text: 'Hello there, you all.', usage }, frameMs: 20 }]);
    const late = new AbortController();
    const response = await asks('chat', true, { signal: late.signal });
    await response.body?.getReader().read();
    late.abort();
    await endings(2);
    const sent = httpRequest(`${url}${wires.chat.path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${customer.secret}`,
        'content-type': 'application/json',
        'content-length': 100,
      },
    });
    sent.on('error', () => undefined);
    sent.write('{');
    await expect.poll(() => gatewaySpans().length).toBe(3);
    sent.destroy();
    expect(await endings(3)).toEqual([
      'abandoned client_gone',
      'abandoned client_gone',
      'abandoned client_gone',
    ]);
    expect(gatewaySpans().map(({ result: ending }) => ending?.status)).toEqual([499, 200, 499]);
    // Read to its end, and paid for.
    expect(gatewaySpans()[1]?.attributes).toMatchObject({ completionTokens: 7, finish: 'stop' });
    expect(gatewaySpans().map(({ attributes: facts }) => facts.costNanousd ?? 0n)).toEqual([
      ...(await rows()),
      0n,
    ]);
  });
  async function startLeaving() {
    const world = await start({ limits: { drainSecs: 5 } });
    const rows = async () =>
      (await world.witness.rows())
        .toSorted((a, b) => (a.ended_at < b.ended_at ? -1 : 1))
        .map(({ charged }) => charged);
    return { ...world, rows };
  }

  it('that run when the gateway stops', async () => {
    const { provider, asks, gateway, gatewaySpans, endings, expectAllEnded: expectWhole } = await start();
    provider.script([{ say: { text: 'Hello there.' }, stallAfter: 2 }]);
    const streamed = (await asks('chat', true)).text().catch(() => undefined);
    const buffered = asks('chat', false).catch(() => undefined);
    await expect.poll(() => provider.requests.length).toBe(2);
    await gateway.close(0);
    await Promise.all([streamed, buffered]);
    expect(await endings(2)).toEqual(['failed gateway_stopping', 'failed gateway_stopping']);
    expect(gatewaySpans().map(({ result: ending }) => ending?.status)).toEqual([200, 503]);
    expectWhole();
  });

  it('that replay a stored answer, free of charge', async () => {
    const { provider, asks, gatewaySpans, endings } = await start();
    provider.script([{ say: { text: 'Hello.', usage } }]);
    const headers = { 'idempotency-key': 'k' };
    for (const stream of both) await (await asks('chat', stream, { headers })).text();
    await (await asks('chat', false, { headers })).text();
    expect(await endings(3)).toEqual(['ok', 'refused idempotency_conflict', 'ok']);
    expect(gatewaySpans().map(({ attributes: facts }) => facts.costNanousd)).toEqual([
      nanoOf({ fresh: 25, cacheRead: 15, output: 7 }),
      undefined,
      undefined,
    ]);
    expect(gatewaySpans()[2]?.attributes).not.toHaveProperty('promptTokens');
  });
});

describe('texts of requests at the gateway', () => {
  const look = { name: 'look', arguments: { at: 'it' } };
  it.each(pairs.filter(([wire]) => wire !== 'completions'))(
    'are reported when they are recorded (%s, provider wire %s)',
    async (wire, model) => {
      const { provider, ask, customer, gatewaySpans, endings } = await start({}, ['gateway']);
      provider.script([
        { say: { reasoning: 'Hm, hm, hm, hm.', text: 'Let me see, and see.', calls: [look, look] } },
      ]);
      const { path, body } = wires[wire];
      const tool = { type: 'object', properties: {} };
      const tools = {
        chat: [{ type: 'function', function: { name: 'look', parameters: tool } }],
        responses: [{ type: 'function', name: 'look', parameters: tool, strict: false }],
        messages: [{ name: 'look', input_schema: tool }],
      }[wire as 'chat'];
      for (const stream of both) {
        const response = await ask(path, { customer, body: { ...body(model, stream, 'Look.'), tools } });
        expect(response.status, await response.text()).toBe(200);
      }
      await endings(2);
      const transcript = [
        'user: Look.',
        'reasoning: Hm, hm, hm, hm.',
        'assistant: Let me see, and see.',
        'tool_call look: {"at":"it"}',
        'tool_call look: {"at":"it"}',
      ];
      // Chat completions have no word for what a model thinks; some providers have one all the same.
      for (const work of gatewaySpans()) expect(transcriptLines(work)).toEqual(transcript);
    },
  );

  it('with the whole conversation', async () => {
    const { asks, gatewaySpans, endings } = await start({}, ['gateway']);
    const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } };
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Look.' }] },
      { role: 'assistant', content: 'I do.', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: 'a cat' },
    ];
    await (await asks('chat', false, { body: { messages } })).text();
    await endings(1);
    expect(gatewaySpans().map(transcriptLines)).toEqual([
      [
        'system: Be brief.',
        'user: Look.',
        'assistant: I do.',
        'tool_call look: {}',
        'tool look: a cat',
        'assistant: Hello.',
      ],
    ]);
  });

  it('unchanged, when the gateway only passes them on', async () => {
    const { ask, customer, gatewaySpans, endings } = await start({}, ['gateway']);
    const { path, body } = wires.completions;
    const sent = body('chat', false, 'Once upon');
    await (await ask(path, { customer, body: sent })).text();
    await endings(1);
    expect(gatewaySpans().map(transcriptLines)).toEqual([
      [`user: ${JSON.stringify(sent)}`, 'assistant: Hello.'],
    ]);
  });

  it('for embeddings, each', async () => {
    const { ask, customer, gatewaySpans, endings, provider } = await start({}, ['gateway']);
    provider.script([{ say: { vectors: [[1], [2]] } }]);
    const { path } = wires.embeddings;
    await (await ask(path, { customer, body: { model: 'chat', input: ['one', 'two'] } })).text();
    await endings(1);
    expect(gatewaySpans().map(transcriptLines)).toEqual([['user: one', 'user: two']]);
  });

  it('are not recorded for a sink of other racks', async () => {
    const { asks, gatewaySpans, endings } = await start({}, ['agent', 'completions', 'workflows']);
    for (const stream of both) await (await asks('chat', stream)).text();
    await endings(2);
    expect(gatewaySpans().map(({ transcript }) => transcript)).toEqual([undefined, undefined]);
  });
});

it('propagates the trace context to the provider', async () => {
  const { provider, asks, gatewaySpans, endings } = await start();
  await (await asks('chat', false, { headers: { traceparent: trace(1) } })).text();
  await (await asks('claude', true, { headers: { traceparent: trace(2) } })).text();
  await (await asks('chat', true)).text();
  await (await asks('chat', false, { headers: { traceparent: 'none' } })).text();
  await endings(4);
  expect(gatewaySpans().map(({ traceparent }) => traceparent)).toEqual([
    trace(1),
    trace(2),
    undefined,
    undefined,
  ]);
  expect(provider.requests.map(({ headers }) => headers['traceparent'])).toEqual([
    trace(1),
    trace(2),
    undefined,
    undefined,
  ]);
});
