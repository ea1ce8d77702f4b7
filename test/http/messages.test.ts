import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { GrammarError } from '../../src/grammar/types.ts';
import { messageEvent, messageObject, messagesError } from '../../src/wires/messages/answer-schema.ts';
import { readNamedEvents } from '../support/named-events.ts';
import { scriptedServers } from '../support/serve.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

const serve = scriptedServers();
const route = '/v1/messages';
const count = `${route}/count_tokens`;
const hi = { max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] };
const bodyOf = async (response: Response) => messagesError.parse(await response.json());
const errorOf = async (response: Response) => (await bodyOf(response)).error;

describe('messages', () => {
  test('buffered: every member that clients expect', async () => {
    const { post } = await serve({ cached: 5 });
    const response = await post(route, { ...hi, model: 'scripted' });
    expect(response.status).toBe(200);
    const body = messageObject.strict().parse(await response.json());
    const prompt = body.usage.input_tokens + 5;
    expect(body).toEqual({
      id: expect.stringMatching(/^msg_\w{32}$/),
      type: 'message',
      role: 'assistant',
      model: 'scripted',
      content: [{ type: 'text', text: 'Hello, world!' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      stop_details: null,
      container: null,
      diagnostics: null,
      usage: {
        input_tokens: prompt - 5,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 5,
        cache_creation: { ephemeral_1h_input_tokens: 0, ephemeral_5m_input_tokens: 0 },
        output_tokens: 4,
        output_tokens_details: { thinking_tokens: 0 },
        server_tool_use: null,
        inference_geo: null,
        service_tier: 'standard',
        speed: null,
      },
    });
    const counted = await post(count, { messages: hi.messages });
    expect(await counted.json()).toEqual({ input_tokens: prompt });
  });

  test('streamed: named events that add up to the same', async () => {
    const { post } = await serve({ answer: () => ['a', 'ü', ' \n', '"\\', '🦊'] });
    const response = await post(route, { ...hi, stream: true });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const events = await readNamedEvents(response);
    for (const { name, data } of events) {
      expect(data['type']).toBe(name);
      expect(messageEvent.parse(data)).toEqual(data);
    }
    expect(events.map(({ name }) => name)).toEqual([
      'message_start',
      'content_block_start',
      ...Array<string>(5).fill('content_block_delta'),
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    const texts = events.flatMap(({ data }) => (data['delta'] as { text?: string } | undefined)?.text ?? []);
    expect(texts.join('')).toBe('aü \n"\\🦊');
    expect(events.at(-2)?.data).toMatchObject({
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: { output_tokens: 5 },
    });
  });

  test('the usage of a stream is the same at its beginning, at its end and buffered', async () => {
    const { post } = await serve({ cached: 5 });
    for (const body of [hi, { ...hi, max_tokens: 0 }]) {
      const { usage } = messageObject.parse(await (await post(route, body)).json());
      const events = await readNamedEvents(await post(route, { ...body, stream: true }));
      const parsed = events.map(({ data }) => messageEvent.parse(data));
      const start = parsed.find((event) => event.type === 'message_start')?.message.usage;
      const end = parsed.find((event) => event.type === 'message_delta')?.usage;
      expect(start).toEqual({ ...usage, output_tokens: 0 });
      expect({ ...start, ...end }).toEqual(usage);
      expect(usage.cache_read_input_tokens).toBe(5);
    }
  });

  test('sampling, limit and stop sequences reach the engine; the answer ends at the limit', async () => {
    const { post, engine } = await serve({ contextLength: 300 });
    const stop_sequences = ['x', 'y'];
    const body = messageObject.parse(
      await (
        await post(route, { ...hi, temperature: 0.5, top_p: 0.9, top_k: 3, stop_sequences, max_tokens: 2 })
      ).json(),
    );
    expect(engine.requests[0]).toMatchObject({
      maxTokens: 2,
      stop: stop_sequences,
      sampling: { temperature: 0.5, topP: 0.9, topK: 3 },
    });
    expect(body).toMatchObject({ stop_reason: 'max_tokens', content: [{ text: 'Hello, ' }] });
    const { requests } = engine;
    await post(route, hi);
    expect(requests[0]?.sampling.seed).not.toBe(requests[1]?.sampling.seed);
  });

  test('max_tokens beyond the remaining context is no error: the context ends the answer and is the stop reason', async () => {
    const { post, engine } = await serve({ contextLength: 100, answer: () => Array<string>(300).fill('x') });
    const body = messageObject.parse(await (await post(route, { ...hi, max_tokens: 32_000 })).json());
    expect(engine.requests[0]?.maxTokens).toBe(100 - (engine.requests[0]?.prompt.length ?? 0));
    expect(body.stop_reason).toBe('model_context_window_exceeded');
  });

  test('max_tokens 0 evaluates the prompt and returns no content', async () => {
    const { post, engine } = await serve({ cached: 3 });
    const body = messageObject.parse(await (await post(route, { ...hi, max_tokens: 0 })).json());
    expect(body).toMatchObject({ content: [], stop_reason: 'max_tokens', stop_sequence: null });
    expect(body.usage).toMatchObject({ cache_read_input_tokens: 3, output_tokens: 0 });
    expect(engine.requests[0]?.maxTokens).toBe(1);
    const streamed = await (await post(route, { ...hi, max_tokens: 0, stream: true })).text();
    expect([...streamed.matchAll(/event: (\w+)/g)].map(([, name]) => name)).toEqual([
      'message_start',
      'message_delta',
      'message_stop',
    ]);
  });

  test('the answer format is enforced by a grammar', async () => {
    const { post, grammars } = await serve();
    const schema = { type: 'object' };
    await post(route, { ...hi, output_config: { format: { type: 'json_schema', schema } } });
    expect(grammars.compiled).toEqual([{ kind: 'json_schema', schema }]);
  });

  test('old, new and absent version headers are accepted; both headers carry the request id', async () => {
    const { post } = await serve();
    for (const headers of [
      { 'anthropic-version': '2023-06-01', 'x-api-key': 'k' },
      { 'anthropic-version': '2026-10-21', authorization: 'Bearer k', 'anthropic-beta': 'a,b' },
      {},
    ]) {
      const response = await post(`${route}?beta=true`, hi, {
        headers: { 'content-type': 'application/json', ...headers },
      });
      expect(response.status).toBe(200);
      expect(response.headers.get('request-id')).toMatch(/^req_/);
      expect(response.headers.get('request-id')).toBe(response.headers.get('x-request-id'));
    }
  });

  test('buffered and streamed answers are counted, with cached tokens', async () => {
    const { post, get } = await serve({ cached: 5 });
    const { usage } = messageObject.parse(await (await post(route, hi)).json());
    await (await post(route, { ...hi, stream: true })).text();
    expect(await (await get('/host/v1/telemetry')).json()).toMatchObject({
      served: { completions: 2 },
      tokens: { prompt: usage.input_tokens + 5, completion: usage.output_tokens },
      measured_completions: 1,
    });
  });

  test('members without effect are accepted', async () => {
    const { post } = await serve();
    const idle = {
      service_tier: 'auto',
      metadata: { user_id: 'u' },
      cache_control: { type: 'ephemeral' },
      inference_geo: null,
      mcp_servers: [],
      tools: [],
      tool_choice: { type: 'none' },
      thinking: { type: 'adaptive', display: null },
      output_config: { effort: null, format: null },
      whatever: 1,
    };
    expect((await post(route, { ...hi, ...idle })).status).toBe(200);
  });
});

describe('refusals of messages', () => {
  test("every refusal has Anthropic's envelope and the request id", async () => {
    const { post, get, engine } = await serve();
    for (const [response, status, type, code] of [
      [await post(route, { ...hi, model: 'claude-9' }), 404, 'not_found_error', 'model_not_found'],
      [await post(count, { ...hi, model: 'claude-9' }), 404, 'not_found_error', 'model_not_found'],
      [await post(route, '{'), 400, 'invalid_request_error', 'invalid_json'],
      [await post(route, 'x', { headers: {} }), 415, 'invalid_request_error', 'unsupported_media_type'],
      [await post(route, 'x'.repeat(33 * 1024 * 1024)), 413, 'request_too_large', 'body_too_large'],
      [await get(route), 405, 'invalid_request_error', 'method_not_allowed'],
      [await post(`${route}/batches`, {}), 404, 'not_found_error', 'not_found'],
    ] as const) {
      expect(response.status).toBe(status);
      const body = await bodyOf(response);
      expect(body.error).toMatchObject({ type, details: { error_code: code } });
      expect(body.request_id).toBe(response.headers.get('request-id'));
    }
    expect(engine.requests).toEqual([]);
  });

  test('neighboring routes keep their own envelope', async () => {
    const { get } = await serve();
    expect(await (await get('/v1/messagesx')).json()).toMatchObject({ error: { param: null } });
  });

  test('without a model: 503', async () => {
    const { post } = await serve({}, 'loading');
    const response = await post(route, hi);
    expect(response.status).toBe(503);
    expect(await errorOf(response)).toMatchObject({
      type: 'api_error',
      details: { error_code: 'model_loading' },
    });
  });

  test('a conversation longer than the context', async () => {
    const { post } = await serve({ contextLength: 100 });
    const messages = [{ role: 'user', content: 'long '.repeat(100) }];
    const response = await post(route, { ...hi, messages });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({
      type: 'invalid_request_error',
      details: { error_code: 'context_length_exceeded' },
    });
  });

  test.each([
    [{ output_config: { format: { type: 'json_schema', schema: {} } } }, 'output_config.format.schema/a'],
    [{ output_format: { type: 'json_schema', schema: {} } }, 'output_format.schema/a'],
    [{ tools: [{ name: 'a', input_schema: {}, strict: true }] }, 'tools/a'],
    [
      {
        tools: [
          { name: 'a', input_schema: {}, strict: true },
          { name: 'b', input_schema: { type: 'string', enum: [1] }, strict: true },
        ],
      },
      'tools.1.input_schema/a',
    ],
  ])('a schema that cannot be enforced, with its path: %j', async (members, param) => {
    const { post, grammars } = await serve();
    grammars.refuse = new GrammarError('unsupported_schema', 'it says not', { path: '/a' });
    const response = await post(route, { ...hi, ...members });
    expect(response.status).toBe(400);
    expect((await errorOf(response)).details).toEqual({ error_code: 'unsupported_schema', param });
  });

  test('threads, with the code on which the official client resends the whole conversation', async () => {
    const { post } = await serve();
    const response = await post(route, { ...hi, thread: { type: 'create' } });
    expect(response.status).toBe(400);
    const { details, message } = await errorOf(response);
    expect(details).toEqual({
      error_code: 'thread_unsupported_request',
      param: 'thread',
      unsupported: ['thread'],
    });
    expect(message).toContain('send all messages with every request');
    expect((await post(route, { ...hi, thread: null })).status).toBe(200);
  });

  test('every violation of a body at once, with its path', async () => {
    const { post } = await serve();
    const response = await post(route, {
      messages: [
        {
          role: 'user',
          content: [{ type: 'image', source: {} }, { type: 'document' }, { type: 'tool_use' }],
        },
        {
          role: 'assistant',
          content: [{ type: 'image' }, { type: 'tool_use', id: 'a', name: 'b c', input: 1 }],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 1, content: [{ type: 'image' }] }] },
        { role: 'robot', content: '' },
        3,
      ],
      system: [{ type: 'image' }],
      tools: [{ type: 'web_search_20250305', name: 'web_search' }, { name: 'a', input_schema: [] }, 3],
      tool_choice: { type: 'some' },
      thinking: { type: 'enabled' },
      output_config: { effort: 'none', format: { type: 'json' } },
      temperature: 1.1,
      top_k: -1,
      stop_sequences: [''],
      mcp_servers: [{ url: 'x' }],
      stream: 1,
    });
    expect(response.status).toBe(400);
    const { message, details } = await errorOf(response);
    expect(details.violations?.map(({ path }) => path).sort()).toEqual(
      [
        'messages.0.content.0.type',
        'messages.0.content.1.type',
        'messages.0.content.2.type',
        'messages.1.content.0.type',
        'messages.1.content.1.name',
        'messages.1.content.1.input',
        'messages.2.content.0.tool_use_id',
        'messages.2.content.0.content.0.type',
        'messages.3.role',
        'messages.4',
        'system.0.type',
        'tools.0.type',
        'tools.1.input_schema',
        'tools.2',
        'tool_choice.type',
        'thinking.budget_tokens',
        'output_config.effort',
        'output_config.format.type',
        'output_config.format.schema',
        'max_tokens',
        'temperature',
        'top_k',
        'stop_sequences.0',
        'mcp_servers',
        'stream',
      ].sort(),
    );
    expect(message).toContain("blocks of type 'image' cannot be read by this model");
    expect(message).toContain("blocks of type 'tool_use' are not allowed in a user message");
    expect(message).toContain("tools of type 'web_search_20250305' are not built into this host");
  });

  test.runIf(runsRest)(
    '10 MB of invalid messages, blocks and tools are refused quickly, with a bounded response',
    async () => {
      const { post, faults } = await serve();
      const many = (element: string) =>
        Array(Math.floor(10_000_000 / (element.length + 1)))
          .fill(element)
          .join(',');
      for (const [body, path] of [
        [`{"max_tokens":1,"messages":[${many('1')}]}`, 'messages.0'],
        [`{"max_tokens":1,"messages":[{"role":"user","content":[${many('1')}]}]}`, 'messages.0.content.0'],
        [
          `{"max_tokens":1,"messages":[{"role":"user","content":[${many('{"type":"tool_result","tool_use_id":""}')}]}]}`,
          'messages.0.content.0.tool_use_id',
        ],
        [
          `{"max_tokens":1,"messages":[{"role":"user","content":""}],"stop_sequences":[${many('"a"')}]}`,
          'stop_sequences',
        ],
      ] as const) {
        const response = await post(route, body);
        expect(response.status).toBe(400);
        const { details } = await errorOf(response);
        expect(details.violations?.[0]?.path).toBe(path);
        expect(details.violations?.length).toBeLessThanOrEqual(50);
      }
      expect(faults).toEqual([]);
    },
  );
});

describe('messages that fail', () => {
  const lost = new EngineError('device_lost', 'the GPU was lost');

  test('before the first event: an HTTP status, and 429 where the queue is full', async () => {
    const broken = await serve({ fail: { after: 0, error: lost } });
    const full = await serve({ capacity: 0 });
    for (const stream of [false, true]) {
      expect((await broken.post(route, { ...hi, stream })).status).toBe(503);
      const response = await full.post(route, { ...hi, stream });
      expect(response.status).toBe(429);
      expect(response.headers.get('retry-after')).toBe('1');
      expect((await errorOf(response)).type).toBe('rate_limit_error');
    }
  });

  test('in the middle: buffered a status; streamed an error event, and no message_stop', async () => {
    const { post } = await serve({ fail: { after: 2, error: lost } });
    expect((await post(route, hi)).status).toBe(503);
    const response = await post(route, { ...hi, stream: true });
    const events = await readNamedEvents(response);
    expect(events.at(-1)).toEqual({
      name: 'error',
      data: {
        type: 'error',
        error: { type: 'api_error', message: 'the GPU was lost', details: { error_code: 'device_lost' } },
        request_id: response.headers.get('request-id'),
      },
    });
    expect(events.some(({ name }) => name === 'message_stop')).toBe(false);
  });

  test('after a slow start: the status was already sent, so the first event is the error', async () => {
    const { post } = await serve({ fail: { after: 1, error: lost }, delayMs: 1500, answer: () => ['', 'x'] });
    const response = await post(route, { ...hi, stream: true });
    expect(response.status).toBe(200);
    expect((await readNamedEvents(response)).map(({ name }) => name)).toEqual(['error']);
  });

  test.each([true, false])('a client that leaves stops the engine (stream: %s)', async (stream) => {
    const held = Promise.withResolvers<void>();
    const { post, engine } = await serve({
      answer: () => Array<string>(500).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    });
    const left = new AbortController();
    const response = post(route, { ...hi, max_tokens: 500, stream }, { signal: left.signal });
    await until(() => engine.produced === 4);
    left.abort();
    await response.then((given) => given.text()).catch(() => undefined);
    await until(() => engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(() => engine.running === 0);
    expect(engine.produced).toBe(4);
  });
});

test('reasoning and calls of a model are blocks before and after its text', async () => {
  const { post } = await serve({
    chatTemplate: thinkingTemplate,
    answer: () => [
      '<think>\nHm',
      '.</think>\n\n',
      'I look.\n',
      '<tool_call>\n{"name": "weather", ',
      '"arguments": {}}\n</tool_call>',
    ],
  });
  const tools = [{ name: 'weather', input_schema: { type: 'object' } }];
  const body = messageObject.parse(await (await post(route, { ...hi, tools })).json());
  expect(body.content).toMatchObject([
    { type: 'thinking', thinking: 'Hm.', signature: expect.stringMatching(/=$/) },
    { type: 'text', text: expect.stringContaining('I look.') },
    { type: 'tool_use', id: expect.stringMatching(/^toolu_/), name: 'weather', input: {} },
  ]);
  expect(body).toMatchObject({ stop_reason: 'tool_use' });
  expect(body.usage.output_tokens_details.thinking_tokens).toBeGreaterThan(0);
});
