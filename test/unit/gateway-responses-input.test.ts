import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WireError } from '../../src/wires/core/error.ts';
import type { Conversation, Message, Part } from '../../src/wires/core/conversation.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { encodeReasoning } from '../../src/wires/responses/encrypted-content.ts';
import { openaiResponses } from '../../src/wires/responses/upstream.ts';
import { clientRequest, testModel } from '../support/gateway-responses.ts';

const read = (body: Record<string, unknown>) =>
  responsesWire.conversation(clientRequest({ model: 'm', ...body }));
const messagesIn = (body: Record<string, unknown>) => read(body).messages;
const fault = (body: Record<string, unknown>): WireError => {
  try {
    read(body);
  } catch (error) {
    if (error instanceof WireError) return error;
    throw error;
  }
  throw new Error('nothing was wrong');
};
const weather = { type: 'function', name: 'weather', parameters: { type: 'object' } };

describe('a request to responses, read', () => {
  test('a text with instructions', () => {
    expect(read({ instructions: 'Be brief.', input: 'hi' })).toEqual({
      messages: [
        { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] },
        { role: 'user', parts: [{ type: 'text', text: 'hi' }] },
      ],
      tools: [],
      stop: [],
      format: { type: 'text' },
    });
  });

  test('parts of every kind', () => {
    const content = [
      { type: 'input_text', text: 'a', prompt_cache_breakpoint: { mode: 'explicit' } },
      { type: 'input_image', image_url: 'https://x/y.png', detail: 'original' },
      { type: 'input_image', image_url: 'data:image/PNG;charset=x;base64,AAAA', detail: 'low' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' },
      { type: 'input_text', text: 'b', cache_control: { type: 'ephemeral', ttl: '1h' } },
    ];
    expect(messagesIn({ input: [{ type: 'message', role: 'user', content }] })).toEqual([
      {
        role: 'user',
        parts: [
          { type: 'text', text: 'a', cache: {} },
          { type: 'image', source: { url: 'https://x/y.png' }, detail: 'high' },
          { type: 'image', source: { mediaType: 'image/png', data: 'AAAA' }, detail: 'low' },
          { type: 'file', mediaType: 'application/pdf', data: 'BBBB', name: 'a.pdf' },
          { type: 'text', text: 'b', cache: { ttl: '1h' } },
        ],
      },
    ]);
  });

  test('a tool loop: consecutive items of the model form one message, and so do the outputs', () => {
    const input = [
      { role: 'user', content: 'Weather?' },
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }] },
      {
        type: 'message',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
      },
      { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city":"Oslo"}' },
      { type: 'function_call', call_id: 'c2', name: 'time', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c2', output: 'noon' },
      {
        type: 'function_call_output',
        call_id: 'c1',
        output: [
          { type: 'input_text', text: 'rain' },
          { type: 'input_image', image_url: 'https://x/y.png' },
        ],
      },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] },
      { role: 'developer', content: 'Go on.' },
    ];
    expect(messagesIn({ input })).toEqual([
      { role: 'user', parts: [{ type: 'text', text: 'Weather?' }] },
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'hm' },
          { type: 'text', text: 'I look.' },
          { type: 'tool_call', id: 'c1', name: 'weather', arguments: '{"city":"Oslo"}' },
          { type: 'tool_call', id: 'c2', name: 'time', arguments: '{}' },
        ],
      },
      {
        role: 'tool',
        parts: [
          {
            type: 'tool_result',
            id: 'c2',
            name: 'time',
            parts: [{ type: 'text', text: 'noon' }],
            failed: false,
          },
          {
            type: 'tool_result',
            id: 'c1',
            name: 'weather',
            parts: [
              { type: 'text', text: 'rain' },
              { type: 'image', source: { url: 'https://x/y.png' } },
            ],
            failed: false,
          },
        ],
      },
      { role: 'assistant', parts: [{ type: 'refusal', text: 'No.' }] },
      { role: 'system', parts: [{ type: 'text', text: 'Go on.' }] },
    ]);
  });

  test('signatures of other providers are decoded; encrypted reasoning of OpenAI is left to OpenAI', () => {
    const summary = [{ type: 'summary_text', text: 'hm' }];
    const reasoning = (sealed: string, list = summary) => ({
      type: 'reasoning',
      id: 'rs_1',
      summary: list,
      encrypted_content: sealed,
    });
    const input = [
      reasoning(encodeReasoning({ form: 'signature', signature: 's"1' })),
      reasoning(encodeReasoning({ form: 'sealed', data: 'd' }), []),
      reasoning('gAAAAB'),
      reasoning(encodeReasoning({ form: 'call', callId: 'c1', signature: 'g' }), []),
      { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{}' },
    ];
    expect(messagesIn({ input })).toEqual([
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'hm', signature: 's"1' },
          { type: 'encrypted_reasoning', data: 'd' },
          { type: 'reasoning', text: 'hm' },
          { type: 'tool_call', id: 'c1', name: 'weather', arguments: '{}', signature: 'g' },
        ],
      },
    ]);
    expect(fault({ input: [reasoning('lathe:["signature"')] }).param).toBe('input.0.encrypted_content');
  });

  test('settings', () => {
    const schema = { type: 'object' };
    const { messages: _, ...settings } = read({
      input: 'x',
      tools: [
        { ...weather, description: 'd', strict: true },
        { type: 'function', name: 'time', parameters: null },
      ],
      tool_choice: { type: 'function', name: 'time' },
      parallel_tool_calls: false,
      text: { format: { type: 'json_schema', name: 'n', schema, strict: true, description: 'e' } },
      reasoning: { effort: 'high', summary: 'auto' },
      max_output_tokens: 50,
      temperature: 0.5,
      top_p: 0.9,
      top_logprobs: 2,
      include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
      safety_identifier: 'me',
      store: true,
      metadata: { a: 'b' },
      service_tier: 'auto',
      truncation: 'auto',
    });
    expect(settings).toEqual({
      tools: [
        { name: 'weather', description: 'd', parameters: { type: 'object' }, strict: true },
        { name: 'time', parameters: { type: 'object', properties: {} } },
      ],
      toolChoice: { name: 'time' },
      parallelToolCalls: false,
      format: { type: 'schema', name: 'n', schema, strict: true, description: 'e' },
      reasoning: { effort: 'high' },
      maxTokens: 50,
      temperature: 0.5,
      topP: 0.9,
      topLogprobs: 2,
      user: 'me',
      stop: [],
    });
    expect(read({ input: 'x', reasoning: { max_tokens: 100 } }).reasoning).toEqual({ maxTokens: 100 });
    expect(read({ input: 'x', reasoning_effort: 'low' }).reasoning).toEqual({ effort: 'low' });
    expect(read({ input: 'x', text: { format: { type: 'json_object' } } }).format).toEqual({ type: 'json' });
    expect(read({ input: 'x', top_logprobs: 0, tool_choice: null })).not.toHaveProperty('topLogprobs');
  });

  test('allowed_tools hides the others', () => {
    const tools = [weather, { ...weather, name: 'time' }];
    const allowed = [{ type: 'function', name: 'time' }];
    const { tools: left, toolChoice } = read({
      input: 'x',
      tools,
      tool_choice: { type: 'allowed_tools', mode: 'required', tools: allowed },
    });
    expect([left.map(({ name }) => name), toolChoice]).toEqual([['time'], 'required']);
  });

  test.each([
    ['tools.0.type', { input: 'x', tools: [{ type: 'web_search' }] }],
    ['tools.0.type', { input: 'x', tools: [{ type: 'custom', name: 'sql' }] }],
    ['tool_choice.type', { input: 'x', tool_choice: { type: 'file_search' } }],
    ['input.0', { input: [{ type: 'custom_tool_call', call_id: 'c', name: 'n', input: '' }] }],
    ['input.0', { input: [{ type: 'web_search_call', id: 'ws_1' }] }],
    ['input.0.content.0', { input: [{ role: 'user', content: [{ type: 'input_audio' }] }] }],
    [
      'input.0.content.0.file_url',
      { input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'u' }] }] },
    ],
    ['moderation', { input: 'x', moderation: {} }],
    ['context_management', { input: 'x', context_management: [{ type: 'compaction' }] }],
  ])('%s, which only OpenAI supports, is refused by name', (param, body) => {
    expect(fault(body)).toMatchObject({ status: 400, code: 'unsupported_parameter', param });
  });

  test('an empty request is refused', () => {
    expect(fault({ input: [] })).toMatchObject({ status: 400, param: 'input' });
  });

  test('an output requires its call', () => {
    const error = fault({ input: [{ type: 'function_call_output', call_id: 'c9', output: 'x' }] });
    expect(error.param).toBe('input.0.call_id');
    expect(error.message).toMatch(/send the call with its output/);
  });

  test('all violations are reported at once, each with its path', () => {
    const error = fault({
      input: [
        { role: 'robot', content: 'x' },
        { role: 'user', content: 7 },
      ],
      tools: [{ type: 'function', function: { name: 'nested' } }],
      temperature: 9,
      reasoning: { effort: 'huge' },
      text: { format: { type: 'json_schema' } },
    });
    expect(error.violations?.map(({ path }) => path)).toEqual([
      'input.0.role',
      'input.1.content',
      'tools.0',
      'text.format.schema',
      'text.format.name',
      'reasoning.effort',
      'temperature',
    ]);
  });

  test('no body makes it fail in any other way', () => {
    const key = fc.constantFrom(
      ...'type role content input tools name call_id output summary text format reasoning effort'.split(' '),
      ...'tool_choice include image_url file_data encrypted_content mode'.split(' '),
    );
    const word = fc.constantFrom(
      ...'message user assistant function_call function_call_output reasoning function'.split(' '),
      ...'input_text input_image input_file refusal json_schema allowed_tools lathe:["call"]'.split(' '),
    );
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        word,
        fc.jsonValue({ maxDepth: 1 }),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(key, tie('value'), { maxKeys: 4 }),
      ),
    })).value;
    fc.assert(
      fc.property(fc.dictionary(key, value), (body) => {
        try {
          responsesWire.conversation(clientRequest({ model: 'm', ...body }));
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

const sealedText = fc.string({ minLength: 1 });
const textPart = fc.record({ type: fc.constant('text' as const), text: fc.string() });
const imagePart = fc.record({
  type: fc.constant('image' as const),
  source: fc.oneof(
    fc.record({ url: fc.webUrl() }),
    fc.record({ mediaType: fc.constant('image/png'), data: fc.base64String({ minLength: 4 }) }),
  ),
  detail: fc.constantFrom('auto' as const, 'low' as const, 'high' as const),
});
const filePart = fc.record({
  type: fc.constant('file' as const),
  mediaType: fc.constant('application/pdf'),
  data: fc.base64String({ minLength: 4 }),
  name: fc.string({ minLength: 1 }),
});
/** A turn of the model with its calls, and the results of all of them. */
const turn = fc
  .record({
    answerParts: fc.array(
      fc.oneof(textPart, fc.record({ type: fc.constant('refusal' as const), text: fc.string() })),
      {
        minLength: 1,
        maxLength: 3,
      },
    ),
    calls: fc.array(
      fc.record({
        name: fc.string({ minLength: 1 }),
        arguments: fc.string(),
        parts: fc.array(fc.oneof(textPart, imagePart), { minLength: 1, maxLength: 3 }),
      }),
      { maxLength: 3 },
    ),
  })
  .map(({ answerParts: parts, calls }) => ({ parts, calls }));
const conversations = fc
  .record({
    system: fc.string(),
    user: fc.array(fc.oneof(textPart, imagePart, filePart), { minLength: 1, maxLength: 4 }),
    turns: fc.array(turn, { maxLength: 3 }),
    tools: fc.uniqueArray(
      fc.record({
        name: fc.stringMatching(/^[a-z]{1,8}$/),
        description: fc.string(),
        parameters: fc.constant({ type: 'object', properties: { a: { type: 'string' } } }),
        strict: fc.boolean(),
      }),
      { selector: ({ name }) => name, minLength: 1, maxLength: 3 },
    ),
    choice: fc.constantFrom('auto' as const, 'none' as const, 'required' as const, 'named' as const),
    rest: fc.record(
      {
        temperature: fc.double({ min: 0, max: 2, noNaN: true }),
        topP: fc.double({ min: 0, max: 1, noNaN: true }),
        topLogprobs: fc.integer({ min: 0, max: 20 }),
        parallelToolCalls: fc.boolean(),
        user: fc.string(),
        reasoning: fc.record({ effort: fc.constantFrom('low' as const, 'high' as const) }),
        format: fc.oneof(
          fc.constant({ type: 'json' as const }),
          fc.record({
            type: fc.constant('schema' as const),
            name: fc.stringMatching(/^\w{1,8}$/),
            schema: fc.constant({ type: 'object' }),
            strict: fc.boolean(),
          }),
        ),
      },
      { requiredKeys: [] },
    ),
  })
  .map(({ system, user, turns, tools, choice, rest }): Conversation => {
    const messages: Message[] = [
      { role: 'system', parts: [{ type: 'text', text: system }] },
      { role: 'user', parts: user },
    ];
    turns.forEach(({ parts, calls }, at) => {
      const ids = calls.map((_, index) => `call_${at}_${index}`);
      const made: Part[] = calls.map(({ name, arguments: text }, index) => ({
        type: 'tool_call',
        id: ids[index] ?? '',
        name,
        arguments: text,
      }));
      messages.push({ role: 'assistant', parts: [...parts, ...made] });
      const results: Part[] = calls.map(({ name, parts: resultParts }, index) => ({
        type: 'tool_result',
        id: ids[index] ?? '',
        name,
        parts: resultParts,
        failed: false,
      }));
      messages.push(results.length > 0 ? { role: 'tool', parts: results } : { role: 'user', parts: user });
    });
    const toolChoice = choice === 'named' ? { name: tools[0]?.name ?? '' } : choice;
    return { messages, tools, toolChoice, stop: [], format: { type: 'text' }, maxTokens: 500, ...rest };
  });

describe('a conversation as a request of OpenAI', () => {
  const model = testModel({ caps: ['chat', 'tools', 'reasoning'], efforts: ['low', 'medium', 'high'] });
  const options = { model, stream: true, maxTokens: 500 };
  const written = (conversation: Conversation, more: object = {}) =>
    JSON.parse(openaiResponses.request(conversation, { ...options, ...more }).text) as Record<
      string,
      unknown
    >;
  const plain: Conversation = {
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
    tools: [],
    stop: [],
    format: { type: 'text' },
  };

  test('and back is the same', () => {
    fc.assert(
      fc.property(conversations, (conversation) => {
        const back = responsesWire.conversation(clientRequest(written(conversation)));
        expect(back).toEqual(conversation);
      }),
      { numRuns: 300 },
    );
  });

  test('stores nothing, requests encrypted reasoning, and always has a token limit', () => {
    expect(written(plain)).toEqual({
      model: 'gpt-upstream',
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hi' }] }],
      stream: true,
      store: false,
      max_output_tokens: 500,
      include: ['reasoning.encrypted_content'],
    });
    expect(written(plain, { model: testModel(), stream: false })).not.toHaveProperty('include');
  });

  test('effort is the nearest supported level; a budget becomes the nearest effort', () => {
    const effort = (reasoning: NonNullable<Conversation['reasoning']>, of = model) =>
      written({ ...plain, reasoning }, { model: of })['reasoning'];
    expect(effort({ effort: 'max' })).toEqual({ effort: 'high', summary: 'auto' });
    expect(effort({ effort: 'none' })).toEqual({ effort: 'low', summary: 'auto' });
    expect(effort({ maxTokens: 240 })).toEqual({ effort: 'medium', summary: 'auto' });
    expect(effort({ maxTokens: 9000 })).toEqual({ effort: 'high', summary: 'auto' });
    expect(effort({ effort: 'high' }, testModel())).toBeUndefined();
    expect(effort({ effort: 'none' }, testModel({ efforts: ['none', 'low'] }))).toEqual({ effort: 'none' });
  });

  test('OpenAI gets back only its own encrypted reasoning, with its summary', () => {
    fc.assert(
      fc.property(sealedText, (data) => {
        const { input } = written({
          ...plain,
          messages: [
            {
              role: 'assistant',
              parts: [
                { type: 'reasoning', text: 'theirs', signature: 's' },
                { type: 'encrypted_reasoning', data: 'anthropic:theirs', id: 'theirs' },
                { type: 'reasoning', text: 'a' },
                { type: 'encrypted_reasoning', data: `openai:${data}`, id: 'rs_1' },
                { type: 'reasoning', text: 'unsealed' },
                { type: 'text', text: 'b' },
              ],
            },
          ],
        });
        expect(input).toEqual([
          {
            type: 'reasoning',
            id: 'rs_1',
            summary: [{ type: 'summary_text', text: 'a' }],
            encrypted_content: data,
          },
          {
            type: 'message',
            role: 'assistant',
            content: [{ type: 'output_text', text: 'b', annotations: [] }],
          },
        ]);
      }),
    );
  });

  test.each([
    ['stop', { stop: ['x'] }],
    ['top_k', { topK: 5 }],
    ['seed', { seed: 1 }],
    ['presence_penalty', { presencePenalty: 1 }],
    ['frequency_penalty', { frequencyPenalty: -1 }],
  ])('%s is not supported there: refused by name', (param, more) => {
    expect(() => written({ ...plain, ...more })).toThrow(
      expect.objectContaining({ status: 400, code: 'unsupported_parameter', param }),
    );
    expect(written({ ...plain, presencePenalty: 0 })).not.toHaveProperty('presence_penalty');
  });
});
