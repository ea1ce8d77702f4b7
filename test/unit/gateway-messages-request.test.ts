import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Model } from '../../src/gateway/catalog/types.ts';
import type { Cap, Effort } from '../../src/wires/core/types.ts';
import { WireError } from '../../src/wires/core/error.ts';
import type { Conversation, Message, Part } from '../../src/wires/core/conversation.ts';
import { messagesWire } from '../../src/wires/messages/client.ts';
import { messagesPassthrough } from '../../src/wires/messages/passthrough.ts';
import { anthropicMessages } from '../../src/wires/messages/upstream.ts';
import type { ClientRequest } from '../../src/wires/core/wire.ts';
import { modelOf } from '../support/gateway/models.ts';

const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] });
const talk = (more: Partial<Conversation> = {}): Conversation => ({
  messages: [user('Hi')],
  tools: [],
  stop: [],
  format: { type: 'text' },
  ...more,
});
const model = modelOf('anthropic-messages', { family: 'anthropic' });
const withEfforts = (...efforts: Effort[]) => modelOf('anthropic-messages', { efforts });
const ask = (conversation: Conversation, maxTokens = 4096, of: Model = model, stream = false) =>
  JSON.parse(anthropicMessages.request(conversation, { model: of, stream, maxTokens }).text);
const refusal = (act: () => unknown): WireError => {
  try {
    act();
  } catch (error) {
    if (error instanceof WireError) return error;
    throw error;
  }
  throw new Error('expected a refusal');
};
const clientRequest = (body: object, text = JSON.stringify(body)): ClientRequest => ({
  text,
  body: JSON.parse(text),
  facts: messagesWire.facts(JSON.parse(text), text),
  header: () => undefined,
});
const tool = { name: 'f', parameters: { type: 'object', properties: { x: { type: 'number' } } } };

describe('the request', () => {
  it("the path, the provider's model name, and always max_tokens", () => {
    const options = { model, stream: true, maxTokens: 7 };
    const { path, headers, text } = anthropicMessages.request(talk(), options);
    expect({ path, headers, body: JSON.parse(text) }).toEqual({
      path: '/messages',
      headers: {},
      body: {
        model: 'upstream-model',
        max_tokens: 7,
        stream: true,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
      },
    });
  });

  it('system texts are separate; cache breakpoints turn them into blocks', () => {
    const system = (...parts: Part[]): Message => ({ role: 'system', parts });
    expect(ask(talk({ messages: [system({ type: 'text', text: 'Be kind.' }), user('Hi')] })).system).toBe(
      'Be kind.',
    );
    const marked = system({ type: 'text', text: 'Long.', cache: { ttl: '1h' } });
    const late = system({ type: 'text', text: 'Late.' });
    expect(ask(talk({ messages: [marked, user('Hi'), late] })).system).toEqual([
      { type: 'text', text: 'Long.', cache_control: { type: 'ephemeral', ttl: '1h' } },
      { type: 'text', text: 'Late.' },
    ]);
    const { system: none, messages } = ask(talk({ messages: [late] }));
    expect(none).toBeUndefined();
    expect(messages).toEqual([{ role: 'user', content: [{ type: 'text', text: 'Late.' }] }]);
  });

  it('tool results begin a user turn; signed thinking precedes the calls', () => {
    const messages: Message[] = [
      user('Weather?'),
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'unsealed' },
          { type: 'reasoning', text: 'hm', signature: 'anthropic:sig' },
          { type: 'encrypted_reasoning', data: 'anthropic:abc' },
          { type: 'encrypted_reasoning', data: 'openai:gAAAAAB', id: 'rs_1' },
          { type: 'encrypted_reasoning', data: 'of nobody' },
          { type: 'reasoning', text: 'so', signature: 'google:sig' },
          { type: 'reasoning', text: 'so', signature: 'of nobody' },
          { type: 'tool_call', id: 'functions.f:0', name: 'f', arguments: '{"x":12345678901234567890}' },
          { type: 'tool_call', id: 'functions_f_0', name: 'f', arguments: '{"x":', cache: {} },
        ],
      },
      {
        role: 'tool',
        parts: [{ type: 'tool_result', id: 'functions.f:0', name: 'f', parts: [], failed: false }],
      },
      user('And?'),
      {
        role: 'tool',
        parts: [
          {
            type: 'tool_result',
            id: 'functions_f_0',
            name: 'f',
            parts: [
              { type: 'text', text: 'no' },
              { type: 'image', source: { url: 'https://x/y.png' } },
            ],
            failed: true,
          },
        ],
      },
    ];
    const { text } = anthropicMessages.request(talk({ messages, tools: [tool] }), {
      model,
      stream: false,
      maxTokens: 9,
    });
    expect(text).toContain('"input":{"x":12345678901234567890}');
    expect(JSON.parse(text).messages).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'sig' },
          { type: 'redacted_thinking', data: 'abc' },
          { type: 'tool_use', id: 'functions_f_0', name: 'f', input: { x: expect.any(Number) } },
          {
            type: 'tool_use',
            id: 'functions_f_0_',
            name: 'f',
            input: { invalid_json: '{"x":' },
            cache_control: { type: 'ephemeral' },
          },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'functions_f_0' },
          {
            type: 'tool_result',
            tool_use_id: 'functions_f_0_',
            content: [
              { type: 'text', text: 'no' },
              { type: 'image', source: { type: 'url', url: 'https://x/y.png' } },
            ],
            is_error: true,
          },
          { type: 'text', text: 'And?' },
        ],
      },
    ]);
  });

  it('images, documents and texts', () => {
    const parts: Part[] = [
      { type: 'image', source: { mediaType: 'image/png', data: 'AAAA' }, detail: 'low' },
      { type: 'image', source: { url: 'data:image/webp;base64,BBBB' } },
      { type: 'file', mediaType: 'application/pdf', data: 'CCCC', name: 'a.pdf', cache: { ttl: '5m' } },
      {
        type: 'file',
        mediaType: 'text/markdown; charset=utf-8',
        data: Buffer.from('# é').toString('base64'),
      },
      { type: 'file', mediaType: 'image/gif', data: 'DDDD' },
      { type: 'text', text: ' \n' },
    ];
    expect(ask(talk({ messages: [{ role: 'user', parts }] })).messages[0].content).toEqual([
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
      { type: 'image', source: { type: 'base64', media_type: 'image/webp', data: 'BBBB' } },
      {
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: 'CCCC' },
        title: 'a.pdf',
        cache_control: { type: 'ephemeral', ttl: '5m' },
      },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: '# é' } },
      { type: 'image', source: { type: 'base64', media_type: 'image/gif', data: 'DDDD' } },
    ]);
  });

  it('a prefilled answer is trimmed at the end', () => {
    const messages: Message[] = [
      user('Hi'),
      { role: 'assistant', parts: [{ type: 'text', text: 'It is \n' }] },
    ];
    expect(ask(talk({ messages })).messages[1].content).toEqual([{ type: 'text', text: 'It is' }]);
  });

  it('settings', () => {
    const body = ask(talk({ temperature: 0.5, topP: 1, topK: 40, stop: ['END'], user: 'me' }));
    expect(body).toMatchObject({ temperature: 0.5, top_k: 40, stop_sequences: ['END'] });
    for (const member of ['top_p', 'user', 'metadata']) expect(body).not.toHaveProperty(member);
    expect(ask(talk({ temperature: 1.7, topP: 0.9 }))).toMatchObject({ top_p: 0.9 });
    expect(ask(talk({ temperature: 1.7 }))).not.toHaveProperty('temperature');
    expect(ask(talk({ temperature: 0 }))).toMatchObject({ temperature: 0 });
    expect(ask(talk({ temperature: 0 }), 4096, withEfforts('low'))).not.toHaveProperty('temperature');
  });

  it('everything unsupported is refused at once', () => {
    const error = refusal(() =>
      ask(
        talk({
          messages: [{ role: 'user', parts: [{ type: 'file', mediaType: 'audio/wav', data: '' }] }],
          topLogprobs: 2,
          presencePenalty: 1,
          frequencyPenalty: -1,
          stop: ['\n'],
        }),
      ),
    );
    expect(error).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'unsupported_parameter',
      param: 'logprobs',
    });
    expect(error.violations?.map(({ path }) => path)).toEqual([
      'logprobs',
      'presence_penalty',
      'frequency_penalty',
      'stop',
      'messages.0.content.0',
    ]);
    expect(() => ask(talk({ presencePenalty: 0, frequencyPenalty: 0 }))).not.toThrow();
  });
});

describe('tools', () => {
  it.each<[Conversation['toolChoice'], boolean | undefined, unknown]>([
    [undefined, undefined, undefined],
    [undefined, false, { type: 'auto', disable_parallel_tool_use: true }],
    ['auto', true, { type: 'auto' }],
    ['none', false, { type: 'none' }],
    ['required', false, { type: 'any', disable_parallel_tool_use: true }],
    [{ name: 'f' }, undefined, { type: 'tool', name: 'f' }],
  ])('choice %j, parallel %j', (toolChoice, parallelToolCalls, expected) => {
    const conversation = talk({
      tools: [tool],
      ...(toolChoice === undefined ? {} : { toolChoice }),
      ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
    });
    expect(ask(conversation).tool_choice).toEqual(expected);
  });

  it('a schema is always of an object; strict where the model supports it and the schema can be closed', () => {
    const open = { type: 'object', additionalProperties: { type: 'number' } };
    const tools = [
      { name: 'a', parameters: {}, description: 'A.', cache: { ttl: '1h' as const } },
      { ...tool, strict: true },
      { name: 'open', parameters: open, strict: true },
    ];
    expect(ask(talk({ tools })).tools).toEqual([
      {
        name: 'a',
        description: 'A.',
        input_schema: { type: 'object' },
        cache_control: { type: 'ephemeral', ttl: '1h' },
      },
      { name: 'f', input_schema: { ...tool.parameters, additionalProperties: false }, strict: true },
      { name: 'open', input_schema: open },
    ]);
    const plain = modelOf('anthropic-messages', { caps: new Set<Cap>(['chat', 'tools']) });
    expect(ask(talk({ tools: [{ ...tool, strict: true }] }), 99, plain).tools).toEqual([
      { name: 'f', input_schema: tool.parameters },
    ]);
  });

  it('tools of earlier calls are defined but not callable', () => {
    const call: Part = { type: 'tool_call', id: 'a', name: 'f', arguments: '' };
    const body = ask(talk({ messages: [user('Hi'), { role: 'assistant', parts: [call] }] }));
    expect(body.tools).toEqual([{ name: 'f', input_schema: { type: 'object' } }]);
    expect(body.tool_choice).toEqual({ type: 'none' });
  });
});

describe('reasoning of a model that takes a budget', () => {
  it.each<[Effort, number, unknown]>([
    ['none', 4096, { type: 'disabled' }],
    ['minimal', 4096, { type: 'disabled' }],
    ['low', 4096, { type: 'enabled', budget_tokens: 1024 }],
    ['medium', 4096, { type: 'enabled', budget_tokens: 2048 }],
    ['high', 8000, { type: 'enabled', budget_tokens: 6400 }],
    ['max', 64_000, { type: 'enabled', budget_tokens: 60_800 }],
    ['high', 1200, { type: 'disabled' }],
    ['max', 300, { type: 'disabled' }],
  ])('effort %s of %d tokens', (effort, maxTokens, expected) => {
    expect(ask(talk({ reasoning: { effort } }), maxTokens).thinking).toEqual(expected);
  });

  it('never less than 1024 and never all of max_tokens', () => {
    const efforts = fc.constantFrom<Effort>('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max');
    fc.assert(
      fc.property(efforts, fc.integer({ min: 1, max: 200_000 }), (effort, maxTokens) => {
        const { thinking } = ask(talk({ reasoning: { effort } }), maxTokens);
        if (thinking.type === 'disabled') return;
        expect(thinking.budget_tokens).toBeGreaterThanOrEqual(1024);
        expect(thinking.budget_tokens).toBeLessThan(maxTokens);
      }),
    );
  });

  it('a budget of the caller is used unchanged, or refused with advice', () => {
    expect(ask(talk({ reasoning: { maxTokens: 1500 } })).thinking).toEqual({
      type: 'enabled',
      budget_tokens: 1500,
    });
    expect(ask(talk({ reasoning: { maxTokens: 0 } })).thinking).toEqual({ type: 'disabled' });
    for (const maxTokens of [1, 1023, 4096, 9000]) {
      const error = refusal(() => ask(talk({ reasoning: { maxTokens } })));
      expect(error).toMatchObject({ status: 400, param: 'reasoning.max_tokens' });
      expect(error.message).toMatch(maxTokens < 1024 ? /at least 1024/ : /raise max_tokens/);
    }
  });

  it('a forced call takes precedence over thinking', () => {
    const forced = talk({ tools: [tool], toolChoice: 'required', reasoning: { effort: 'high' } });
    expect(ask(forced)).toMatchObject({ thinking: { type: 'disabled' }, tool_choice: { type: 'any' } });
  });

  it.each<[string, Partial<Conversation>, Effort[]]>([
    ['seed', { seed: 1 }, []],
    ['top_p', { temperature: 0.5, topP: 0.9 }, []],
    ['top_p', { reasoning: { effort: 'high' }, topP: 0.5 }, []],
    ['top_p', { topP: 0.97 }, ['low']],
  ])('an unsupported %s is refused by name: %j', (param, more, levels) => {
    expect(() => ask(talk(more), 4096, withEfforts(...levels))).toThrow(
      expect.objectContaining({ status: 400, param }),
    );
  });

  it('a temperature that thinking excludes is dropped', () => {
    const body = ask(talk({ reasoning: { effort: 'high' }, temperature: 0.2, topK: 5, topP: 1 }));
    for (const member of ['temperature', 'top_k', 'top_p']) expect(body).not.toHaveProperty(member);
    expect(ask(talk({ reasoning: { effort: 'high' }, topP: 0.97 }))).toMatchObject({ top_p: 0.97 });
  });

  it('no thinking where an unfinished turn does not begin with signed thinking', () => {
    const call: Part = { type: 'tool_call', id: 'a', name: 'f', arguments: '{}' };
    const result: Message = {
      role: 'tool',
      parts: [{ type: 'tool_result', id: 'a', name: 'f', parts: [], failed: false }],
    };
    const going = (...parts: Part[]) =>
      ask(
        talk({
          messages: [user('Hi'), { role: 'assistant', parts }, result],
          tools: [tool],
          reasoning: { effort: 'high' },
        }),
      ).thinking.type;
    expect(going(call)).toBe('disabled');
    expect(going({ type: 'reasoning', text: 'no seal' }, call)).toBe('disabled');
    expect(going({ type: 'reasoning', text: 'hm', signature: 'anthropic:s' }, call)).toBe('enabled');
    expect(going({ type: 'encrypted_reasoning', data: 'anthropic:d' }, call)).toBe('enabled');
  });

  it('a model without reasoning gets no reasoning settings', () => {
    const plain = modelOf('anthropic-messages', { caps: new Set<Cap>(['chat']) });
    expect(ask(talk({ reasoning: { effort: 'high' } }), 4096, plain)).not.toHaveProperty('thinking');
  });
});

describe('reasoning of a model with levels of effort', () => {
  const levels = withEfforts('low', 'medium', 'high', 'max');

  it.each<[Effort, string]>([
    ['none', 'low'],
    ['minimal', 'low'],
    ['medium', 'medium'],
    ['xhigh', 'high'],
    ['max', 'max'],
  ])('%s', (effort, expected) => {
    expect(ask(talk({ reasoning: { effort } }), 500, levels)).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: expected },
    });
  });

  it('none where supported, and a budget as the nearest level', () => {
    const body = ask(talk({ reasoning: { effort: 'none' } }), 500, withEfforts('none', 'low'));
    expect(body.thinking).toEqual({ type: 'disabled' });
    expect(body).not.toHaveProperty('output_config');
    expect(ask(talk({ reasoning: { maxTokens: 500 } }), 1000, levels).output_config).toEqual({
      effort: 'medium',
    });
  });

  it('a forced call keeps the effort only', () => {
    const forced = talk({ tools: [tool], toolChoice: { name: 'f' }, reasoning: { effort: 'high' } });
    expect(ask(forced, 500, levels)).not.toHaveProperty('thinking');
    expect(ask(forced, 500, levels).output_config).toEqual({ effort: 'high' });
    expect(ask(forced, 500, withEfforts('none', 'high')).thinking).toEqual({ type: 'disabled' });
  });
});

describe('the answer format', () => {
  const formed = (schema: Record<string, unknown>) =>
    ask(talk({ format: { type: 'schema', name: 'n', schema } })).output_config.format;

  it('a schema, in the dialect of the provider', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        n: { type: 'integer', minimum: 1, description: 'A count.' },
        list: {
          type: 'array',
          items: {
            oneOf: [
              { type: 'string', format: 'uri' },
              { $ref: '#/$defs/a', title: 't' },
            ],
          },
          minItems: 2,
        },
        kind: { enum: ['a', 'b'] },
      },
      required: ['n'],
      $defs: { a: { type: 'object', properties: { pattern: { type: 'string', pattern: '^a' } } } },
    };
    expect(formed(schema)).toEqual({
      type: 'json_schema',
      schema: {
        type: 'object',
        properties: {
          n: { type: 'integer', description: 'A count.\n\n{minimum: 1}' },
          list: {
            type: 'array',
            items: { anyOf: [{ type: 'string', format: 'uri' }, { $ref: '#/$defs/a' }] },
            description: '{minItems: 2}',
          },
          kind: { enum: ['a', 'b'] },
        },
        required: ['n'],
        $defs: {
          a: {
            type: 'object',
            properties: { pattern: { type: 'string', description: '{pattern: "^a"}' } },
            additionalProperties: false,
          },
        },
        additionalProperties: false,
      },
    });
  });

  it.each<[string, Record<string, unknown>]>([
    ['the schema', { type: 'object' }],
    [
      'the schema',
      { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'string' } },
    ],
    [
      'properties.map',
      {
        type: 'object',
        properties: { map: { type: ['object', 'null'], additionalProperties: { type: 'string' } } },
      },
    ],
  ])('an object with arbitrary members is refused: %s', (place, schema) => {
    const error = refusal(() => formed(schema));
    expect(error).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'response_format' });
    expect(error.message).toContain(place);
  });

  it('JSON without a schema is an instruction to the model', () => {
    const body = ask(talk({ format: { type: 'json' } }));
    expect(body.system).toMatch(/one JSON object/);
    expect(body).not.toHaveProperty('output_config');
  });
});

const texts = fc.string({ minLength: 1, maxLength: 12 }).filter((text) => text.trim() !== '');
const caches = fc.constantFrom({}, { cache: {} }, { cache: { ttl: '1h' as const } });
const textParts = fc.tuple(texts, caches).map(([text, cache]): Part => ({ type: 'text', text, ...cache }));
const imageParts = fc
  .tuple(fc.constantFrom({ url: 'https://a/b' }, { mediaType: 'image/png', data: 'AAAA' }), caches)
  .map(([source, cache]): Part => ({ type: 'image', source, ...cache }));
const thoughts = fc.oneof(
  fc
    .tuple(texts, texts)
    .map(([text, seal]): Part => ({ type: 'reasoning', text, signature: `anthropic:${seal}` })),
  texts.map((seal): Part => ({ type: 'encrypted_reasoning', data: `anthropic:${seal}` })),
);
/** A round of an agent: a question, an answer with calls, their results. */
const rounds = fc.record({
  system: fc.array(textParts, { maxLength: 2 }),
  userParts: fc.array(fc.oneof(textParts, imageParts), { minLength: 1, maxLength: 3 }),
  thought: fc.array(thoughts, { maxLength: 2 }),
  answerParts: fc.array(textParts, { maxLength: 2 }),
  calls: fc.array(
    fc.tuple(fc.constantFrom('f', 'g'), fc.dictionary(texts, fc.jsonValue(), { maxKeys: 3 }), fc.boolean()),
    {
      maxLength: 3,
    },
  ),
});

describe('a conversation is read back from its request', () => {
  it('except for joined messages', () => {
    fc.assert(
      fc.property(fc.array(rounds, { minLength: 1, maxLength: 4 }), (all) => {
        const messages: Message[] = [];
        const expected: Message[] = [];
        const system: Part[] = [];
        all.forEach(({ system: instructions, userParts, thought, answerParts, calls }, n) => {
          const called = calls.map(
            ([name, args], m): Part => ({
              type: 'tool_call',
              id: `c${n}_${m}`,
              name,
              arguments: JSON.stringify(args),
            }),
          );
          const results = calls.map(
            ([name, , failed], m): Part => ({
              type: 'tool_result',
              id: `c${n}_${m}`,
              name,
              parts: m === 0 ? [] : [{ type: 'text', text: 'ok' }],
              failed,
            }),
          );
          system.push(...instructions);
          for (const part of instructions) messages.push({ role: 'system', parts: [part] });
          // One message a part on the way in; joined on the way out.
          for (const part of userParts) messages.push({ role: 'user', parts: [part] });
          expected.push({ role: 'user', parts: userParts });
          const answer = [...thought, ...answerParts, ...called];
          messages.push({ role: 'assistant', parts: answer });
          if (answer.length > 0) expected.push({ role: 'assistant', parts: answer });
          for (const part of results) messages.push({ role: 'tool', parts: [part] });
          if (results.length > 0) expected.push({ role: 'tool', parts: results });
        });
        // A last question, so that no answer is begun.
        messages.push(user('?'));
        expected.push(user('?'));
        const conversation = talk({ messages, tools: [tool, { name: 'g', parameters: { type: 'object' } }] });
        const body = ask(conversation);
        const back = messagesWire.conversation(clientRequest(body));
        const joined = expected.reduce<Message[]>((list, message) => {
          const last = list.at(-1);
          if (last?.role === message.role)
            list[list.length - 1] = { ...last, parts: [...last.parts, ...message.parts] };
          else list.push(message);
          return list;
        }, []);
        expect(back).toEqual({
          ...conversation,
          maxTokens: 4096,
          messages: system.length > 0 ? [{ role: 'system', parts: system }, ...joined] : joined,
        });
        // A repeated translation gives the same request.
        expect(ask(back)).toEqual(body);
      }),
    );
  });
});

describe('the same wire on both sides', () => {
  const options = { model, stream: false, maxTokens: 10 };
  const body =
    '{ "model" : "the-model", "max_tokens": 10, "temperature": 1.0, "metadata":{"n":12345678901234567890},\n "messages":[{"role":"user","content":"\\u00e9"}] }';
  const request = (text: string, headers: Record<string, string> = {}): ClientRequest => ({
    ...clientRequest({}, text),
    header: (name) => headers[name],
  });

  it('only the name of the model changes', () => {
    expect(messagesPassthrough.request(request(body), options)).toEqual({
      path: '/messages',
      headers: {},
      text: body.replace('the-model', 'upstream-model'),
    });
  });

  it('duplicate members are sent once, as checked', () => {
    const twice =
      '{"max_tokens":999999,"model":"x","model":"the-model","messages":[{"role":"user","content":"a"}],"max_tokens":10}';
    expect(messagesPassthrough.request(request(twice), options).text).toBe(
      '{"model":"upstream-model","messages":[{"role":"user","content":"a"}],"max_tokens":10}',
    );
  });

  it('the context window cannot be extended', () => {
    const beta = (features: string, contextWindow: number) =>
      messagesPassthrough.request(request(body, { 'anthropic-beta': features }), {
        ...options,
        model: { ...model, contextWindow },
      }).headers;
    expect(beta('a-1, context-1m-2025-08-07,b-2', 200_000)).toEqual({ 'anthropic-beta': 'a-1,b-2' });
    expect(beta('context-1m-2025-08-07', 200_000)).toEqual({});
    expect(beta('context-1m-2025-08-07', 1_000_000)).toEqual({ 'anthropic-beta': 'context-1m-2025-08-07' });
  });

  it.each(['2023-06-01', '2026-10-21'])(
    'the version %s and beta features pass, and no other header',
    (version) => {
      const headers = {
        'anthropic-version': version,
        'anthropic-beta': 'a-2026-01-01,b-2026-01-01',
        'anthropic-workspace-id': 'w',
        authorization: 'Bearer caller',
      };
      expect(messagesPassthrough.request(request(body, headers), options).headers).toEqual({
        'anthropic-version': version,
        'anthropic-beta': 'a-2026-01-01,b-2026-01-01',
      });
    },
  );
});
