import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { GrammarError } from '../../src/grammar/types.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { responseEvent, responseObject } from '../../src/wires/responses/answer-schema.ts';
import { readNamedEvents } from '../support/named-events.ts';
import { scriptedServers } from '../support/serve.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

const serve = scriptedServers();
const route = '/v1/responses';
const hi = { input: 'hi' };
const errorOf = async (response: Response) => openaiError.parse(await response.json()).error;

describe('responses', () => {
  test('buffered: every member that clients expect', async () => {
    const { post } = await serve({ cached: 5 });
    const tools = [{ type: 'function', name: 'weather', parameters: { type: 'object' } }];
    const response = await post(route, {
      ...hi,
      model: 'scripted',
      instructions: 'Be brief.',
      metadata: { a: 'b' },
      tools,
      tool_choice: 'none',
      reasoning: { effort: 'low' },
      max_output_tokens: 100,
      store: true,
      user: 'me',
    });
    expect(response.status).toBe(200);
    const body = responseObject.strict().parse(await response.json());
    const input_tokens = body.usage?.input_tokens ?? 0;
    expect(body).toEqual({
      id: expect.stringMatching(/^resp_\w{32}$/),
      object: 'response',
      created_at: expect.any(Number),
      completed_at: expect.any(Number),
      status: 'completed',
      model: 'scripted',
      output: [
        {
          id: expect.stringMatching(/^msg_\w{32}$/),
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'Hello, world!', annotations: [], logprobs: [] }],
        },
      ],
      error: null,
      incomplete_details: null,
      instructions: 'Be brief.',
      previous_response_id: null,
      tools: [
        {
          type: 'function',
          name: 'weather',
          description: null,
          parameters: { type: 'object' },
          strict: null,
        },
      ],
      tool_choice: 'none',
      parallel_tool_calls: true,
      max_tool_calls: null,
      max_output_tokens: 100,
      truncation: 'disabled',
      text: { format: { type: 'text' }, verbosity: 'medium' },
      reasoning: { effort: 'low', summary: null },
      temperature: 1,
      top_p: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      top_logprobs: 0,
      store: false,
      background: false,
      service_tier: 'default',
      metadata: { a: 'b' },
      user: 'me',
      safety_identifier: null,
      prompt_cache_key: null,
      usage: {
        input_tokens,
        input_tokens_details: { cached_tokens: 5, cache_write_tokens: 0 },
        output_tokens: 4,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: input_tokens + 4,
      },
    });
  });

  test('streamed: named and numbered events; the last one has the buffered answer; no [DONE]', async () => {
    const { post } = await serve({ answer: () => ['a', 'ü', ' \n', '"\\', '🦊'] });
    const buffered = responseObject.parse(await (await post(route, hi)).json());
    const response = await post(route, { ...hi, stream: true, stream_options: { include_usage: true } });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const events = await readNamedEvents(response);
    for (const [index, { name, data }] of events.entries()) {
      expect(data).toMatchObject({ type: name, sequence_number: index });
      expect(responseEvent.parse(data)).toEqual(data);
    }
    expect(events.map(({ name }) => name.replace('response.', ''))).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      ...Array<string>(5).fill('output_text.delta'),
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ]);
    const last = responseObject.parse(events.at(-1)?.data['response']);
    const same = { id: '', created_at: 0, completed_at: 0 };
    const texts = ({ output }: typeof last) =>
      output.map((item) => ('content' in item ? item.content : item));
    expect({ ...last, ...same, output: texts(last) }).toEqual({
      ...buffered,
      ...same,
      output: texts(buffered),
    });
  });

  test('sampling, limit and stop texts reach the engine; the answer ends at the limit', async () => {
    const { post, engine } = await serve({ contextLength: 300 });
    const body = responseObject.parse(
      await (
        await post(route, { ...hi, temperature: 0, top_p: 0.5, seed: 3, stop: 'x', max_output_tokens: 2 })
      ).json(),
    );
    expect(engine.requests[0]).toMatchObject({
      maxTokens: 2,
      stop: ['x'],
      sampling: { temperature: 0, topP: 0.5, seed: 3 },
    });
    expect(body).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete', content: [{ text: 'Hello, ' }] }],
      temperature: 0,
      top_p: 0.5,
    });
    await post(route, hi);
    expect(engine.requests[1]?.maxTokens).toBe(300 - (engine.requests[1]?.prompt.length ?? 0));
  });

  test.each([
    [{ include: ['message.output_text.logprobs'] }, 0],
    [{ top_logprobs: 2 }, 2],
    [{ include: ['message.output_text.logprobs'], top_logprobs: 1 }, 1],
    [{ include: ['reasoning.encrypted_content'] }, undefined],
  ])('%j: %s most likely tokens', async (members, count) => {
    const { post, engine } = await serve({ answer: () => ['a', 'b'] });
    const { output } = responseObject.parse(await (await post(route, { ...hi, ...members })).json());
    expect(engine.requests[0]?.logprobs).toBe(count);
    const [item] = output;
    if (item?.type !== 'message') throw new Error('no message');
    const logprobs = item.content[0]?.logprobs ?? [];
    expect(logprobs.map(({ token }) => token)).toEqual(count === undefined ? [] : ['a', 'b']);
    if (count) expect(logprobs[0]).toMatchObject({ bytes: [97], logprob: -97 / 64 });
    expect(logprobs.every(({ top_logprobs }) => top_logprobs.length === count)).toBe(true);
  });

  test('the answer format is enforced by a grammar', async () => {
    const { post, grammars } = await serve();
    const schema = { type: 'object' };
    await post(route, { ...hi, text: { format: { type: 'json_schema', name: 'x', schema } } });
    await post(route, { ...hi, text: { format: { type: 'json_object' } } });
    expect(grammars.compiled).toEqual([{ kind: 'json_schema', schema }, { kind: 'json' }]);
  });

  test('buffered and streamed answers are counted', async () => {
    const { post, get } = await serve();
    const { usage } = responseObject.parse(await (await post(route, hi)).json());
    await (await post(route, { ...hi, stream: true })).text();
    expect(await (await get('/host/v1/telemetry')).json()).toMatchObject({
      served: { completions: 2 },
      tokens: { prompt: usage?.input_tokens, completion: usage?.output_tokens },
      measured_completions: 1,
    });
  });

  test('there is no stored response to get or delete, and the answer says why', async () => {
    const { get } = await serve();
    for (const method of ['GET', 'DELETE']) {
      const response = await get(`${route}/resp_1`, { method });
      expect(response.status).toBe(404);
      const { code, message } = await errorOf(response);
      expect(code).toBe('response_not_found');
      expect(message).toContain('stores none. Start it with --store-responses');
    }
  });
});

describe('refusals of responses', () => {
  test('another model, and a conversation longer than the context, with param `input`', async () => {
    const { post } = await serve({ contextLength: 100 });
    const unknown = await post(route, { ...hi, model: 'gpt-9' });
    expect(unknown.status).toBe(404);
    expect(await errorOf(unknown)).toMatchObject({ code: 'model_not_found', param: 'model' });
    for (const body of [{ input: 'long '.repeat(100) }, { ...hi, max_output_tokens: 200 }]) {
      const response = await post(route, body);
      expect(response.status).toBe(400);
      expect(await errorOf(response)).toMatchObject({ code: 'context_length_exceeded', param: 'input' });
    }
  });

  test('a schema that cannot be enforced, with its path', async () => {
    const { post, grammars } = await serve();
    grammars.refuse = new GrammarError('unsupported_schema', 'it says not', { path: '/properties/a' });
    const format = { type: 'json_schema', name: 'x', schema: { type: 'object' } };
    const response = await post(route, { ...hi, text: { format } });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({
      code: 'unsupported_schema',
      param: 'text.format.schema/properties/a',
    });
    const parameters = { type: 'string', enum: [1] };
    const tools = [{ type: 'function', name: 'a', parameters, strict: true }];
    expect(await errorOf(await post(route, { ...hi, text: { format }, tools }))).toMatchObject({
      param: 'tools.0.parameters/properties/a',
    });
  });

  test('every violation of a body at once, with its path', async () => {
    const { post } = await serve();
    const response = await post(route, {
      input: [
        { role: 'user', content: [{ type: 'input_image' }] },
        { role: 'robot', content: '' },
        3,
        { type: 'item_reference', id: 'x' },
        { type: 'web_search_call' },
        { type: 'function_call', call_id: 'c', name: 'a b', arguments: {} },
      ],
      tools: [{ type: 'web_search' }, { type: 'function', name: 'a', parameters: [] }],
      tool_choice: { type: 'web_search' },
      text: { format: { type: 'json_schema', name: 'a b', schema: 1 }, verbosity: 'loud' },
      reasoning: { effort: 'much' },
      max_output_tokens: 0,
      temperature: 9,
      top_logprobs: 21,
      metadata: { a: 1 },
      stream: 'yes',
      previous_response_id: 'resp_1',
      truncation: 'auto',
    });
    expect(response.status).toBe(400);
    const { violations, message } = await errorOf(response);
    expect(violations?.map(({ path }) => path).sort()).toEqual(
      [
        'input.0.content.0.type',
        'input.1.role',
        'input.2',
        'input.3.type',
        'input.4.type',
        'input.5.name',
        'input.5.arguments',
        'tools.0.type',
        'tools.1.parameters',
        'tool_choice',
        'text.format.name',
        'text.format.schema',
        'text.verbosity',
        'reasoning.effort',
        'max_output_tokens',
        'temperature',
        'top_logprobs',
        'metadata.a',
        'stream',
        'previous_response_id',
        'truncation',
      ].sort(),
    );
    expect(message).toContain("parts of type 'input_image' cannot be read");
    expect(message).toContain('no items to refer to');
    expect(message).toContain("tools of type 'web_search' do not run on this host");
  });

  test.each([
    [{ previous_response_id: 'resp_1' }, 'previous_response_id', '--store-responses'],
    [{ conversation: 'conv_1' }, 'conversation', 'send the whole conversation'],
    [{ background: true }, 'background', 'use stream'],
    [{ prompt: { id: 'p' } }, 'prompt', 'no prompt templates'],
    [{ truncation: 'auto' }, 'truncation', 'shorten the input'],
    [{ context_management: [{ type: 'compaction' }] }, 'context_management', 'shorten the input'],
    [{ moderation: {} }, 'moderation', 'does not moderate'],
  ])('%j is refused rather than ignored', async (member, param, words) => {
    const { post, engine } = await serve();
    const response = await post(route, { ...hi, ...member });
    expect(response.status).toBe(400);
    const error = await errorOf(response);
    expect(error).toMatchObject({ code: 'unsupported_parameter', param });
    expect(error.message).toContain(words);
    expect(engine.requests).toEqual([]);
  });

  test('values without effect are accepted, and so is null', async () => {
    const { post } = await serve();
    const idle = {
      previous_response_id: null,
      conversation: null,
      background: false,
      prompt: null,
      truncation: 'disabled',
      context_management: [],
      text: { format: null, verbosity: 'high' },
      reasoning: { effort: null, summary: 'auto' },
      store: false,
      tools: [],
      tool_choice: 'auto',
      include: [],
      stream_options: { include_obfuscation: false },
      service_tier: 'auto',
      whatever: 1,
    };
    expect((await post(route, { ...hi, ...idle })).status).toBe(200);
  });

  test.runIf(runsRest)(
    '10 MB of invalid items and tools are refused quickly, with a bounded response',
    async () => {
      const { post, faults } = await serve();
      const many = (element: string) =>
        Array(Math.floor(10_000_000 / (element.length + 1)))
          .fill(element)
          .join(',');
      for (const [body, param] of [
        [`{"input":[${many('1')}]}`, 'input.0'],
        [`{"input":[{"role":"user","content":[${many('1')}]}]}`, 'input.0.content.0'],
        [
          `{"input":[${many('{"type":"function_call_output","call_id":"","output":""}')}]}`,
          'input.0.call_id',
        ],
        [`{"input":"a","tools":[${many('{"type":"function","name":"a"}')}]}`, 'tools'],
        [`{"input":"a","include":[${many('1')}]}`, 'include.0'],
      ] as const) {
        const response = await post(route, body);
        expect(response.status).toBe(400);
        const error = await errorOf(response);
        expect(error.param).toBe(param);
        expect(error.violations?.length).toBeLessThanOrEqual(50);
      }
      expect(faults).toEqual([]);
    },
  );
});

describe('responses that fail', () => {
  const lost = new EngineError('device_lost', 'the GPU was lost');

  test('before the first event: an HTTP status', async () => {
    const { post } = await serve({ fail: { after: 0, error: lost } });
    for (const stream of [false, true]) {
      const response = await post(route, { ...hi, stream });
      expect(response.status).toBe(503);
      expect(await errorOf(response)).toMatchObject({ code: 'device_lost' });
    }
  });

  test('in the middle: buffered a status; streamed an error and a failed response', async () => {
    const { post } = await serve({ fail: { after: 2, error: lost } });
    expect((await post(route, hi)).status).toBe(503);
    const events = await readNamedEvents(await post(route, { ...hi, stream: true }));
    expect(events.map(({ data }) => data['sequence_number'])).toEqual([...events.keys()]);
    expect(events.slice(-2)).toMatchObject([
      { name: 'error', data: { type: 'error', error: { code: 'device_lost', param: null } } },
      {
        name: 'response.failed',
        data: { response: { status: 'failed', output: [{ status: 'incomplete' }] } },
      },
    ]);
  });

  test('after a slow start: the status was already sent, so the first event is the error', async () => {
    const { post } = await serve({ fail: { after: 1, error: lost }, delayMs: 1500, answer: () => ['', 'x'] });
    const response = await post(route, { ...hi, stream: true });
    expect(response.status).toBe(200);
    const events = await readNamedEvents(response);
    expect(events.map(({ name }) => name)).toEqual(['error', 'response.failed']);
  });

  test('an internal error mid-stream is reported without its message', async () => {
    const { post, faults } = await serve({ fail: { after: 1, error: new Error('secret path') } });
    const response = await post(route, { ...hi, stream: true });
    const text = await response.text();
    expect(text).toContain('internal_error');
    expect(text).toContain(response.headers.get('x-request-id'));
    expect(text).not.toContain('secret');
    expect(faults).toHaveLength(1);
  });

  test.each([true, false])('a client that leaves stops the engine (stream: %s)', async (stream) => {
    const held = Promise.withResolvers<void>();
    const { post, engine } = await serve({
      answer: () => Array<string>(500).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    });
    const left = new AbortController();
    const response = post(route, { ...hi, stream }, { signal: left.signal });
    await until(() => engine.produced === 4);
    left.abort();
    await response.then((given) => given.text()).catch(() => undefined);
    await until(() => engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(() => engine.running === 0);
    expect(engine.produced).toBe(4);
  });
});

test('reasoning and calls are items before and after the text, and their usage is reported', async () => {
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
  const tools = [{ type: 'function', name: 'weather' }];
  const body = responseObject.parse(await (await post(route, { ...hi, tools })).json());
  expect(body.output).toMatchObject([
    { type: 'reasoning', content: [{ text: 'Hm.' }] },
    { type: 'message', content: [{ text: expect.stringContaining('I look.') }] },
    { type: 'function_call', call_id: expect.stringMatching(/^call_/), name: 'weather', arguments: '{}' },
  ]);
  expect(body.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
  const events = await readNamedEvents(await post(route, { ...hi, tools, stream: true }));
  const last = responseObject.parse(events.at(-1)?.data['response']);
  expect(last.output.map(({ type }) => type)).toEqual(['reasoning', 'message', 'function_call']);
});
