import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { type Answer, houseKey, type Loose, prices, servedGateway } from '../support/gateway/served.ts';
import type { Say } from '../support/gateway/speech.ts';
import { describeShared } from '../support/shared.ts';

type Served = Awaited<ReturnType<typeof servedGateway>>;
let served: Served;
const ask: Served['ask'] = (...args) => served.ask(...args);

beforeAll(async () => {
  served = await servedGateway();
});
afterAll(() => served.close());

const messages = [{ role: 'user', content: 'Hello' }];
const paths = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
} as const;
type Wire = keyof typeof paths;
const bodies: Readonly<Record<Wire, object>> = {
  chat: { messages },
  messages: { messages, max_tokens: 3000 },
  responses: { input: 'Hello' },
  completions: { prompt: 'Hello', max_tokens: 100 },
  embeddings: { input: 'Hello' },
};
const on = (wire: Wire, model: string, more: object = {}, headers: Record<string, string> = {}) =>
  ask(paths[wire], { body: { ...bodies[wire], model, ...more }, headers });

/** Every wire of callers with a model of every kind of provider that serves it. */
const pairs: readonly (readonly [Wire, string])[] = [
  ...['full', 'thinker', 'claude', 'claude-levels', 'gemini', 'gemini-levels'].flatMap((model) => [
    ['chat', model] as const,
    ['responses', model] as const,
  ]),
  ['messages', 'claude'],
  ['messages', 'claude-levels'],
  ['completions', 'full'],
];
const everyRoute: readonly (readonly [Wire, string])[] = [...pairs, ['embeddings', 'embedder']];

const errorOf = ({ status, json }: Answer) => ({ status, ...json.error }) as Record<string, unknown>;

describe('model', () => {
  it.each(Object.keys(paths) as Wire[])(
    '%s: an unknown id is 404, and no provider receives a request',
    async (wire) => {
      const before = served.provider.requests.length;
      for (const model of [
        'gpt-nothing',
        'Plain',
        'plain ',
        'plain/',
        '/plain',
        'ant/plain',
        'oai/',
        'azure/x',
      ]) {
        const answer = await on(wire, model);
        expect(errorOf(answer)).toMatchObject({
          status: 404,
          type: 'invalid_request_error',
          code: 'model_not_found',
          param: 'model',
          message: expect.stringContaining('/v1/models'),
        });
        expect(answer.headers.get('x-svc-requested-model')).toBe(encodeURI(model));
      }
      expect(served.provider.requests.length).toBe(before);
    },
  );

  it.each([
    ['plain', 'plain', 'as_requested'],
    ['auto', 'plain', 'routed'],
    ['default', 'full', 'routed'],
    ['oai/plain', 'plain', 'as_requested'],
    ['a/b:c', 'a/b:c', 'as_requested'],
    ['oai/a/b:c', 'a/b:c', 'as_requested'],
  ])('%s is served by %s, %s', async (requestedModel, effective, reason) => {
    for (const stream of [false, true]) {
      served.replies({ say: { text: 'Hello.' } });
      const { status, headers } = await on('chat', requestedModel, { stream });
      expect(status).toBe(200);
      expect(headers.get('x-svc-requested-model')).toBe(requestedModel);
      expect(headers.get('x-svc-effective-model')).toBe(effective);
      expect(headers.get('x-svc-receipt-reason')).toBe(reason);
      expect(headers.get('x-svc-endpoint')).toBe('credits');
      expect(served.lastProviderRequest().model).toBe(`up-${effective}`);
      expect(served.lastProviderRequest().key).toBe(houseKey);
    }
  });

  it('is never replaced by another one, even when its provider fails', async () => {
    served.replies({ status: 500 });
    const before = served.provider.requests.length;
    const answer = await on('chat', 'plain');
    expect(errorOf(answer)).toMatchObject({ status: 502, type: 'upstream_error', code: 'upstream_failed' });
    expect(answer.headers.get('x-svc-effective-model')).toBe('plain');
    expect(served.provider.requests.slice(before).map(({ model }) => model)).toEqual(['up-plain']);
  });

  it('of another family on the messages wire is 400, by its id', async () => {
    for (const model of ['plain', 'full', 'thinker', 'gemini', 'auto'])
      expect(errorOf(await on('messages', model))).toMatchObject({
        status: 400,
        type: 'invalid_request_error',
        param: 'model',
        message: expect.stringMatching(/family/),
      });
  });

  it('that gives no embeddings is 400 for embeddings, and one of embeddings is 400 for answers', async () => {
    for (const [wire, model, cap] of [
      ['embeddings', 'plain', 'embeddings'],
      ['chat', 'embedder', 'chat'],
      ['responses', 'embedder', 'chat'],
      ['completions', 'plain', 'completions'],
    ] as const)
      expect(errorOf(await on(wire, model))).toMatchObject({
        status: 400,
        code: 'unsupported_parameter',
        message: expect.stringContaining(`'${cap}'`),
      });
  });
});

describe('max_tokens', () => {
  const sent: Record<string, (body: Loose) => unknown> = {
    plain: (body) => body.max_tokens ?? body.max_completion_tokens,
    // OpenAI's reasoning models refuse the older name.
    full: (body) => body.max_completion_tokens,
    thinker: (body) => body.max_output_tokens,
    claude: (body) => body.max_tokens,
    gemini: (body) => body.generationConfig.maxOutputTokens,
  };
  it.each(Object.keys(sent))('absent on the chat wire: 4096 are asked for (%s)', async (model) => {
    served.replies({ say: { text: 'x' } });
    for (const stream of [false, true]) {
      await on('chat', model, { stream });
      expect(sent[model]?.(served.lastProviderRequest().body)).toBe(4096);
    }
    await on('chat', model, { max_tokens: 77 });
    expect(sent[model]?.(served.lastProviderRequest().body)).toBe(77);
    await on('chat', model, { max_completion_tokens: 78 });
    expect(sent[model]?.(served.lastProviderRequest().body)).toBe(78);
    await on('chat', model, { max_tokens: null });
    expect(sent[model]?.(served.lastProviderRequest().body)).toBe(4096);
  });

  it("absent, for a model with a lower limit: the model's limit", async () => {
    await on('chat', 'brief');
    expect(served.lastProviderRequest().body.max_tokens).toBe(300);
  });

  it('is required on the messages wire', async () => {
    for (const value of [undefined, null, 'many', -1, 1.5])
      expect(errorOf(await on('messages', 'claude', { max_tokens: value }))).toMatchObject({
        status: 400,
        type: 'invalid_request_error',
        message: expect.stringContaining('max_tokens'),
      });
  });

  it("above the model's limit is refused, naming both", async () => {
    for (const wire of ['chat', 'messages'] as const)
      expect(errorOf(await on(wire, 'claude', { max_tokens: 8001 }))).toMatchObject({
        status: 400,
        param: 'max_tokens',
        message: expect.stringMatching(/8001.*8000/),
      });
    expect(errorOf(await on('responses', 'full', { max_output_tokens: 8001 }))).toMatchObject({
      status: 400,
      param: 'max_output_tokens',
    });
  });
});

describe('a prompt that certainly exceeds the window', () => {
  const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ');
  const refusal = (param: string) => ({
    status: 400,
    type: 'invalid_request_error',
    code: 'context_length_exceeded',
    param,
    message: expect.stringMatching(/at least \d+ tokens/),
  });
  const long = words(300_000);

  it('is refused by the gateway itself, whatever the wire', async () => {
    const before = served.provider.requests.length;
    const content = [{ type: 'text', text: long }];
    const cases: [Wire, string, object, string][] = [
      ['chat', 'full', { messages: [{ role: 'user', content: long }] }, 'messages'],
      ['chat', 'gemini', { messages: [{ role: 'user', content }] }, 'messages'],
      ['messages', 'claude', { messages: [{ role: 'user', content }] }, 'messages'],
      ['responses', 'thinker', { input: long }, 'input'],
      ['responses', 'full', { input: [{ role: 'user', content: long }] }, 'input'],
      ['completions', 'small', { prompt: ['short', words(300)], max_tokens: 1 }, 'prompt'],
      ['completions', 'small', { prompt: Array.from({ length: 101 }, () => 7), max_tokens: 1 }, 'prompt'],
      ['embeddings', 'embedder', { input: ['short', words(3000)] }, 'input'],
      ['embeddings', 'embedder', { input: [Array.from({ length: 1001 }, () => 7)] }, 'input'],
    ];
    for (const [wire, model, more, param] of cases)
      for (const stream of wire === 'embeddings' ? [false] : [false, true])
        expect(errorOf(await on(wire, model, { ...more, stream }))).toMatchObject(refusal(param));
    expect(served.provider.requests.length).toBe(before);
  });

  it('that may fit is sent to the provider, which counts', async () => {
    served.replies({ say: { text: 'x' } });
    const thoughts = { role: 'assistant', content: 'x', reasoning: long };
    const cases: [Wire, string, object][] = [
      ['chat', 'full', { messages: [{ role: 'user', content: words(150_000) }] }],
      // One word, however long; and nothing but blanks.
      ['chat', 'full', { messages: [{ role: 'user', content: 'a'.repeat(500_000) + ' '.repeat(500_000) }] }],
      ['chat', 'full', { messages: [thoughts, ...messages] }],
      ['responses', 'thinker', { input: long, truncation: 'auto' }],
      ['completions', 'small', { prompt: [words(60), words(60), words(60), words(60)], max_tokens: 1 }],
      ['completions', 'small', { prompt: Array.from({ length: 99 }, () => 7), max_tokens: 1 }],
      ['embeddings', 'embedder', { input: [words(900), words(900), words(900)] }],
    ];
    for (const [wire, model, more] of cases) expect((await on(wire, model, more)).status).toBe(200);
  });

  it('that a provider refuses is 422, with its token counts', async () => {
    const message = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.";
    served.replies({ status: 400, message });
    for (const [wire, model] of everyRoute)
      expect(errorOf(await on(wire, model)), `${wire} ${model}`).toMatchObject({
        status: 422,
        type: 'upstream_error',
        code: 'context_length_exceeded',
        message: expect.stringMatching(/8192.*9000/),
      });
  });
});

describe('tools', () => {
  const name = 'look_up';
  const parameters = { type: 'object', properties: { q: { type: 'string' } } };
  const chatTools = [{ type: 'function', function: { name, parameters } }];
  const responsesTools = [{ type: 'function', name, parameters }];
  const messagesTools = [{ name, input_schema: parameters }];
  const of: Partial<Record<Wire, object[]>> = {
    chat: chatTools,
    responses: responsesTools,
    messages: messagesTools,
  };

  it('without the capability are 400, naming it', async () => {
    const before = served.provider.requests.length;
    for (const [wire, model] of [
      ['chat', 'plain'],
      ['responses', 'plain'],
      ['messages', 'claude-plain'],
    ] as const)
      for (const stream of [false, true])
        expect(errorOf(await on(wire, model, { tools: of[wire], stream }))).toMatchObject({
          status: 400,
          type: 'invalid_request_error',
          code: 'unsupported_parameter',
          param: expect.stringMatching(/^tools/),
          message: expect.stringContaining("'tools'"),
        });
    expect(served.provider.requests.length).toBe(before);
  });

  it.each(pairs.filter(([wire]) => wire in of))('are passed to the model: %s, %s', async (wire, model) => {
    const call = { id: 'call_1', name, arguments: { q: 'x' } };
    for (const stream of [false, true]) {
      served.replies({ say: { calls: [call] } });
      const answer = await on(wire, model, { tools: of[wire], stream });
      expect(answer.status).toBe(200);
      expect(served.lastProviderRequest().text).toContain('look_up');
      expect(answer.text).toContain('look_up');
      expect(answer.text).toContain('q');
    }
  });

  it('and other members that the provider cannot express are 400, naming the member', async () => {
    for (const [model, more, param] of [
      ['claude', { n: 2 }, 'n'],
      ['gemini', { n: 2 }, 'n'],
      ['thinker', { n: 2 }, 'n'],
      ['claude', { logprobs: true }, 'logprobs'],
    ] as const)
      expect(errorOf(await on('chat', model, more))).toMatchObject({
        status: 400,
        type: 'invalid_request_error',
        code: 'unsupported_parameter',
        param,
      });
  });

  it('images likewise', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
    const answer = await on('chat', 'plain', { messages: [{ role: 'user', content: [image] }] });
    expect(errorOf(answer)).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'messages' });
  });
});

describe('reasoning', () => {
  const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
  type Mapped = readonly [model: string, told: (body: Loose) => unknown, expected: readonly unknown[]];
  /** What the providers receive for each effort, with 4096 tokens. */
  const mapped: readonly Mapped[] = [
    // Levels low, medium, high.
    ['full', (body) => body.reasoning_effort, ['low', 'low', 'low', 'medium', 'high', 'high', 'high']],
    [
      'thinker',
      (body) => body.reasoning.effort,
      ['minimal', 'minimal', 'low', 'medium', 'high', 'high', 'high'],
    ],
    // Without levels: a budget, with room for the answer.
    ['claude', (body) => body.thinking.budget_tokens ?? 0, [0, 0, 1024, 2048, 3276, 3686, 3891]],
    [
      'gemini',
      (body) => body.generationConfig.thinkingConfig.thinkingBudget,
      [0, 512, 819, 2048, 3276, 3686, 3891],
    ],
    [
      'claude-levels',
      (body) => body.output_config.effort,
      ['low', 'low', 'low', 'medium', 'high', 'high', 'max'],
    ],
    [
      'gemini-levels',
      (body) => body.generationConfig.thinkingConfig.thinkingLevel,
      ['low', 'low', 'low', 'low', 'high', 'high', 'high'],
    ],
  ];

  it.each(mapped)('%s gets every effort as a level that it supports', async (model, told, expected) => {
    served.replies({ say: { text: 'x' } });
    const limit = { max_tokens: 4096 };
    const heard: Record<string, unknown[]> = { named: [], object: [], responses: [], alias: [] };
    for (const effort of efforts) {
      await on('chat', model, { ...limit, reasoning_effort: effort });
      heard['named']?.push(told(served.lastProviderRequest().body));
      await on('chat', model, { ...limit, reasoning: { effort } });
      heard['object']?.push(told(served.lastProviderRequest().body));
      await on('responses', model, { max_output_tokens: 4096, reasoning: { effort } });
      heard['responses']?.push(told(served.lastProviderRequest().body));
      await on('responses', model, { max_output_tokens: 4096, reasoning_effort: effort });
      heard['alias']?.push(told(served.lastProviderRequest().body));
    }
    expect(heard).toEqual({ named: expected, object: expected, responses: expected, alias: expected });
  });

  it.each([
    ['claude', (body: Loose) => body.thinking, { type: 'enabled', budget_tokens: 1500 }],
    ['gemini', (body: Loose) => body.generationConfig.thinkingConfig.thinkingBudget, 1500],
    ['full', (body: Loose) => body.reasoning_effort, 'medium'],
    ['thinker', (body: Loose) => body.reasoning.effort, 'medium'],
  ])('%s gets max_tokens', async (model, told, expected) => {
    served.replies({ say: { text: 'x' } });
    await on('chat', model, { max_tokens: 3000, reasoning: { max_tokens: 1500 } });
    expect(told(served.lastProviderRequest().body)).toEqual(expected);
    expect(served.lastProviderRequest().text).not.toContain('"reasoning":{"max_tokens"');
  });

  it('that leaves no room for the answer is refused, naming both', async () => {
    expect(
      errorOf(await on('chat', 'claude', { max_tokens: 2000, reasoning: { max_tokens: 2000 } })),
    ).toMatchObject({
      status: 400,
      message: expect.stringMatching(/reasoning\.max_tokens.*room/),
    });
  });

  it('that is unknown is 400', async () => {
    for (const more of [
      { reasoning_effort: 'enormous' },
      { reasoning: { effort: 'enormous' } },
      { reasoning: 7 },
    ])
      for (const model of ['full', 'claude', 'gemini', 'thinker'])
        expect(errorOf(await on('chat', model, more))).toMatchObject({
          status: 400,
          type: 'invalid_request_error',
          message: expect.stringContaining('reasoning'),
        });
  });

  it.each(['full', 'thinker', 'claude', 'claude-levels', 'gemini', 'gemini-levels'])(
    'shows its trace on the chat wire: %s',
    async (model) => {
      const say: Say = { text: 'The answer.', reasoning: 'Let me think about that.', signature: 'c2ln' };
      served.replies({ say });
      const { json } = await on('chat', model, { reasoning_effort: 'high' });
      expect(json.choices[0].message).toMatchObject({ reasoning: say.reasoning, content: say.text });
      const { events } = await on('chat', model, { reasoning_effort: 'high', stream: true });
      const deltas = events.flatMap(({ data }) => data.choices.map(({ delta }: { delta: object }) => delta));
      const joined = (member: string) => deltas.map((delta) => delta[member] ?? '').join('');
      expect([joined('reasoning'), joined('content')]).toEqual([say.reasoning, say.text]);
      // Without one there is no member.
      served.replies({ say: { text: 'x' } });
      expect((await on('chat', model)).json.choices[0].message).not.toHaveProperty('reasoning');
    },
  );

  it('is also in reasoning_content for some models', async () => {
    served.replies({
      raw: {
        body: JSON.stringify({
          id: 'x',
          object: 'chat.completion',
          created: 1,
          model: 'm',
          choices: [
            {
              index: 0,
              finish_reason: 'stop',
              message: { role: 'assistant', content: 'x', reasoning_content: 'hm' },
            },
          ],
          usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
        }),
      },
    });
    expect((await on('chat', 'full')).json.choices[0].message.reasoning_content).toBe('hm');
  });

  it('is an item with its signature on the messages wire', async () => {
    served.replies({ say: { text: 'So.', reasoning: 'Hm, well.', signature: 'sealed' } });
    const thinking = { type: 'enabled', budget_tokens: 1024 };
    const { json } = await on('messages', 'claude', { thinking });
    expect(json.content[0]).toEqual({ type: 'thinking', thinking: 'Hm, well.', signature: 'sealed' });
    const { events } = await on('messages', 'claude', { thinking, stream: true });
    const deltas = events.flatMap(({ data }) => (data.delta ? [data.delta] : []));
    expect(deltas.map((delta) => delta.thinking ?? '').join('')).toBe('Hm, well.');
    expect(deltas.find(({ type }) => type === 'signature_delta')).toEqual({
      type: 'signature_delta',
      signature: 'sealed',
    });
  });
});

describe('usage and its price', () => {
  const usage = { input: 1000, cacheRead: 300, cacheWrite: 200, output: 70, reasoning: 0 };
  const counted = {
    fresh: 500n * prices.in,
    cache_write: 200n * prices.write,
    cache_read: 300n * prices.read,
    output: 70n * prices.out,
  };
  const expectCost = ({ headers }: Answer, cost: typeof counted) => {
    const all = Object.values(cost).reduce((sum, part) => sum + part, 0n);
    expect(headers.get('x-svc-cost-nanousd')).toBe(String(all));
    expect(headers.get('x-svc-cost-components-nanousd')).toBe(
      Object.entries(cost)
        .map(([name, part]) => `${name}=${part}`)
        .join(','),
    );
  };

  it.each(pairs.filter(([, model]) => !model.startsWith('gemini')))(
    '%s, %s: cached input at its own rates',
    async (wire, model) => {
      served.replies({ say: { text: 'x', usage } });
      expectCost(await on(wire, model, wire === 'completions' ? { max_tokens: 1000 } : {}), counted);
    },
  );

  it.each(['gemini', 'gemini-levels'])('%s, which knows no writes', async (model) => {
    served.replies({ say: { text: 'x', usage: { ...usage, cacheWrite: 0 } } });
    expectCost(await on('chat', model), { ...counted, fresh: 700n * prices.in, cache_write: 0n });
  });

  it.each(['full', 'thinker', 'claude'])('chat, %s: counts of the cache', async (model) => {
    const details = { cached_tokens: 300, cache_write_tokens: 200 };
    served.replies({ say: { text: 'x', usage } });
    const { json } = await on('chat', model);
    expect(json.usage).toMatchObject({ prompt_tokens: 1000, completion_tokens: 70, total_tokens: 1070 });
    expect(json.usage.prompt_tokens_details).toMatchObject(details);
    const { events } = await on('chat', model, { stream: true, stream_options: { include_usage: true } });
    expect(events.at(-1)?.data.usage.prompt_tokens_details).toMatchObject(details);
    served.replies({ say: { text: 'x' } });
    const nothing = (await on('chat', model)).json.usage.prompt_tokens_details;
    expect(nothing).toMatchObject({ cached_tokens: 0, cache_write_tokens: 0 });
  });

  it('messages: breakpoints reach the model, and all counts come back', async () => {
    served.replies({ say: { text: 'x', usage: { ...usage, cacheWrite1h: 100 } } });
    const control = { type: 'ephemeral' };
    const system = [{ type: 'text', text: 'Long.', cache_control: control }];
    const answer = await on('messages', 'claude', { system });
    expect(served.lastProviderRequest().body.system[0].cache_control).toEqual(control);
    expect(answer.json.usage).toMatchObject({
      input_tokens: 400,
      cache_creation_input_tokens: 300,
      cache_read_input_tokens: 300,
      output_tokens: 70,
    });
    expectCost(answer, {
      ...counted,
      fresh: 400n * prices.in,
      cache_write: 200n * prices.write + 100n * prices.write1h,
    });
  });

  it('embeddings: input only', async () => {
    served.replies({ say: { usage: { input: 51 } } });
    const answer = await on('embeddings', 'embedder', { input: ['a', 'b'] });
    expect(answer.json.data).toHaveLength(2);
    expectCost(answer, { fresh: 1020n, cache_write: 0n, cache_read: 0n, output: 0n });
  });

  it('the identity of the rate card stays the same, and differs where prices do', async () => {
    served.replies({ say: { text: 'x' } });
    const identities = async (wire: Wire, model: string) =>
      (await on(wire, model)).headers.get('x-svc-pricing-identity');
    const first = await identities('chat', 'plain');
    expect(first).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(await identities('chat', 'plain')).toBe(first);
    expect(await identities('embeddings', 'embedder')).not.toBe(first);
  });
});

describe('streams', () => {
  it.each(pairs)('%s, %s: accepted, and streamed in pieces', async (wire, model) => {
    const words = 'One two three four five six seven eight.';
    served.replies({ say: { text: words, piece: 8 } });
    const answer = await on(wire, model, { stream: true });
    expect([answer.status, answer.isStream]).toEqual([200, true]);
    expect(answer.events.length).toBeGreaterThan(3);
    if (wire === 'chat' || wire === 'completions')
      expect(answer.text.trimEnd().endsWith('data: [DONE]')).toBe(true);
    const text = answer.events.map(({ data }) => textIn(data)).join('');
    expect(text).toBe(words);
  });

  it.each(pairs.filter(([wire]) => wire === 'chat'))(
    '%s, %s: usage only where it is asked for',
    async (wire, model) => {
      served.replies({ say: { text: 'Hello.', usage: { input: 7, output: 3, reasoning: 0 } } });
      const silent = await on(wire, model, { stream: true });
      expect(silent.events.some(({ data }) => data.usage)).toBe(false);
      expect(
        (await on(wire, model, { stream: true, stream_options: { include_usage: false } })).text,
      ).not.toContain('"usage":{');
      const { events } = await on(wire, model, { stream: true, stream_options: { include_usage: true } });
      const told = events.filter(({ data }) => data.usage);
      expect(told).toEqual([events.at(-1)]);
      expect(told[0]?.data).toMatchObject({
        choices: [],
        usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
      });
    },
  );

  it.each(pairs.filter(([wire]) => wire === 'responses'))(
    '%s, %s: the last event has the usage',
    async (wire, model) => {
      served.replies({ say: { text: 'Hello.', usage: { input: 7, output: 3, reasoning: 0 } } });
      const answer = await on(wire, model, { stream: true, stream_options: { include_usage: true } });
      expect(answer.status).toBe(200);
      const last = answer.events.at(-1)?.data;
      expect(last).toMatchObject({
        type: 'response.completed',
        response: { usage: { input_tokens: 7, output_tokens: 3, total_tokens: 10 } },
      });
      expect(served.lastProviderRequest().text).not.toMatch(/"path":"\/responses".*include_usage/);
    },
  );

  it('the last event of the messages wire is the receipt, after message_stop', async () => {
    served.replies({ say: { text: 'Hello.', usage: { input: 10, output: 3 } } });
    const { events, headers } = await on('messages', 'claude', { stream: true });
    expect(events.slice(-2).map(({ event }) => event)).toEqual(['message_stop', 'svc_receipt']);
    expect(events.at(-1)?.data).toEqual({
      type: 'ping',
      svc_receipt: {
        cost_nanousd: Number(10n * prices.in + 3n * prices.out),
        request_id: headers.get('request-id'),
        effective_model: 'claude',
        components: {
          fresh: Number(10n * prices.in),
          cache_write: 0,
          cache_read: 0,
          output: Number(3n * prices.out),
        },
      },
    });
  });

  it('of a provider that sends everything at once have the same shape', async () => {
    served.replies({ say: { text: 'All of it.', piece: Number.POSITIVE_INFINITY } });
    for (const [wire, model] of pairs)
      expect((await on(wire, model, { stream: true })).events.map(({ data }) => textIn(data)).join('')).toBe(
        'All of it.',
      );
  });
});

describe('the version header of the messages wire', () => {
  it.each(['2023-06-01', '2023-01-01'])(
    '%s reaches the provider, and absent it is added',
    async (version) => {
      served.replies({ say: { text: 'x' } });
      await on('messages', 'claude', {}, { 'anthropic-version': version });
      expect(served.lastProviderRequest().headers['anthropic-version']).toBe(version);
      await on('messages', 'claude');
      expect(served.lastProviderRequest().headers['anthropic-version']).toBe('2023-06-01');
    },
  );
});

/** What an event adds to the answer's text, on any wire. */
function textIn(data: Loose): string {
  const [choice] = data.choices ?? [];
  if (choice) return choice.delta?.content ?? choice.text ?? '';
  if (data.type === 'response.output_text.delta') return data.delta;
  return data.type === 'content_block_delta' ? (data.delta.text ?? '') : '';
}

describeShared('what OpenAI publishes', [openApiDocument], () => {
  const parameters = { type: 'object', properties: { q: { type: 'string' } } };
  const says: Record<string, Say> = {
    text: { text: 'Hello there, all of you.' },
    thoughts: { text: 'So.', reasoning: 'Hm.', signature: 'c2ln', usage: { input: 100, cacheRead: 50 } },
    calls: { calls: [{ id: 'call_1', name: 'look_up', arguments: { q: 'x' } }] },
    cut: { text: 'Hello', finish: 'length' },
    filtered: { text: 'Hello', finish: 'content_filter' },
  };
  const openai = pairs.filter(([wire]) => wire !== 'messages');

  it.each(openai)('%s, %s: bodies and chunks fit its schemas', async (wire, model) => {
    for (const [name, say] of Object.entries(says)) {
      if (wire === 'completions' && name !== 'text' && name !== 'cut') continue;
      served.replies({ say });
      const tool =
        wire === 'chat' ? { function: { name: 'look_up', parameters } } : { name: 'look_up', parameters };
      const more = name === 'calls' ? { tools: [{ type: 'function', ...tool }] } : {};
      const body = await on(wire, model, more);
      expect(body.status).toBe(200);
      expect(schemaFaults(wire as 'chat', 'body', body.json), `${name} ${body.text}`).toEqual([]);
      const options = wire === 'responses' ? {} : { stream_options: { include_usage: true } };
      const { events } = await on(wire, model, { ...more, stream: true, ...options });
      for (const { data } of events)
        expect(schemaFaults(wire as 'chat', 'chunk', data), `${name} ${JSON.stringify(data)}`).toEqual([]);
    }
  });

  it('embeddings and errors fit as well', async () => {
    served.replies({ say: {} });
    for (const encoding_format of ['float', 'base64']) {
      const { json } = await on('embeddings', 'embedder', { encoding_format });
      if (encoding_format === 'float') expect(schemaFaults('embeddings', 'body', json)).toEqual([]);
    }
    for (const [wire, model] of [
      ['chat', 'nothing'],
      ['responses', 'nothing'],
      ['embeddings', 'plain'],
      ['completions', 'plain'],
    ] as const)
      expect(schemaFaults('error', 'body', (await on(wire, model)).json)).toEqual([]);
  });
});
