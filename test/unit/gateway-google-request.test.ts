import { describe, expect, it } from 'vitest';
import type { Model } from '../../src/gateway/catalog/types.ts';
import { WireError } from '../../src/wires/core/error.ts';
import type { Conversation, Message, Part } from '../../src/wires/core/conversation.ts';
import { google } from '../../src/wires/google/index.ts';
import { reduceSchema } from '../../src/wires/google/schema.ts';
import { modelOf } from '../support/gateway/models.ts';

type Body = Record<string, unknown> & {
  contents: { role: string; parts: Record<string, unknown>[] }[];
  generationConfig: Record<string, unknown>;
};

const message = (role: Message['role'], ...parts: Part[]): Message => ({ role, parts });
const text = (words: string): Part => ({ type: 'text', text: words });

const ask = (more: Partial<Conversation> = {}, model: Partial<Model> = {}, maxTokens = 1000): Body => {
  const conversation: Conversation = {
    messages: [message('user', text('hi'))],
    tools: [],
    stop: [],
    format: { type: 'text' },
    ...more,
  };
  const { text: body } = google.request(conversation, {
    model: modelOf('google', model),
    stream: false,
    maxTokens,
  });
  return JSON.parse(body) as Body;
};
const contentsOf = (...messages: Message[]) => ask({ messages }).contents;

describe('a request to Google', () => {
  it('goes to the method of the model, below the version', () => {
    const conversation: Conversation = { messages: [], tools: [], stop: [], format: { type: 'text' } };
    const model = modelOf('google', { upstream: 'gemini-2.5/x' });
    const path = (stream: boolean) => google.request(conversation, { model, stream, maxTokens: 1 }).path;
    expect(path(false)).toBe('/models/gemini-2.5%2Fx:generateContent');
    expect(path(true)).toBe('/models/gemini-2.5%2Fx:streamGenerateContent?alt=sse');
  });

  it('puts system messages first, and joins turns of one role', () => {
    const messages = [
      message('system', text('Be brief.')),
      message('user', text('a'), text('b')),
      message('user', text('c')),
      message('system', text('And kind.')),
      message('assistant', text('d')),
      message('user', text('')),
      message('user', text('e')),
    ];
    expect(ask({ messages })).toMatchObject({
      systemInstruction: { parts: [{ text: 'Be brief.' }, { text: 'And kind.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'a' }, { text: 'b' }, { text: 'c' }] },
        { role: 'model', parts: [{ text: 'd' }] },
        { role: 'user', parts: [{ text: 'e' }] },
      ],
    });
  });

  it('is a user turn where there are only system messages', () => {
    const body = ask({ messages: [message('system', text('Tell a joke.'))] });
    expect(body).not.toHaveProperty('systemInstruction');
    expect(body.contents).toEqual([{ role: 'user', parts: [{ text: 'Tell a joke.' }] }]);
  });

  it('carries images and files', () => {
    const contents = contentsOf(
      message(
        'user',
        { type: 'image', source: { mediaType: 'image/png', data: 'AAAA' } },
        { type: 'image', source: { url: 'https://x.test/a.webp?b=c' } },
        { type: 'file', mediaType: 'application/pdf', data: 'BBBB', name: 'a.pdf' },
      ),
    );
    expect(contents[0]?.parts).toEqual([
      { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
      { fileData: { mimeType: 'image/webp', fileUri: 'https://x.test/a.webp?b=c' } },
      { inlineData: { mimeType: 'application/pdf', data: 'BBBB' } },
    ]);
  });

  it('carries calls and their results by name, and ids that the provider gave', () => {
    const call = (id: string, args = '{"a":1}', signature?: string): Part => ({
      type: 'tool_call',
      id,
      name: `f_${id}`,
      arguments: args,
      ...(signature === undefined ? {} : { signature }),
    });
    const result = (id: string, words: string, failed = false): Part => ({
      type: 'tool_result',
      id,
      name: `f_${id}`,
      parts: [
        { type: 'text', text: words },
        { type: 'image', source: { mediaType: 'image/png', data: 'AAAA' } },
      ],
      failed,
    });
    const made = 'call_g_00000000000000000000000000000000';
    const contents = contentsOf(
      message('user', text('x')),
      message('assistant', call('c1', '{"a":1}', 'SEAL'), call(made, ''), call('c3', 'no json')),
      message('tool', result('c1', 'one')),
      message('tool', result(made, 'two', true)),
    );
    expect(contents.slice(1)).toEqual([
      {
        role: 'model',
        parts: [
          { functionCall: { id: 'c1', name: 'f_c1', args: { a: 1 } }, thoughtSignature: 'SEAL' },
          { functionCall: { name: `f_${made}`, args: {} } },
          { functionCall: { id: 'c3', name: 'f_c3', args: { value: 'no json' } } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'c1', name: 'f_c1', response: { output: 'one' } } },
          { functionResponse: { name: `f_${made}`, response: { error: 'two' } } },
          { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
          { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
        ],
      },
    ]);
  });

  it('sends the placeholder signature where one is required and missing, on the first of parallel calls', () => {
    const call: Part = { type: 'tool_call', id: 'c', name: 'f', arguments: '{}' };
    const messages = [message('assistant', call, call)];
    const functionCall = { id: 'c', name: 'f', args: {} };
    expect(ask({ messages }, { efforts: ['low', 'high'] }).contents[0]?.parts).toEqual([
      { functionCall, thoughtSignature: 'skip_thought_signature_validator' },
      { functionCall },
    ]);
    expect(ask({ messages }).contents[0]?.parts).toEqual([{ functionCall }, { functionCall }]);
  });

  it("returns reasoning signatures on their part, and only Google's", () => {
    const seal = (signature: string): Part => ({ type: 'reasoning', text: 'thought', signature });
    const call: Part = { type: 'tool_call', id: 'c', name: 'f', arguments: '{}', signature: 'C' };
    const parts = (...all: Part[]) => contentsOf(message('assistant', ...all))[0]?.parts;
    expect(parts(seal('google:A'), text('x'))).toEqual([{ text: 'x', thoughtSignature: 'A' }]);
    expect(parts(text('x'), seal('google:A'))).toEqual([{ text: 'x', thoughtSignature: 'A' }]);
    expect(parts(text('x'), seal('google:A'), text('y'))).toEqual([
      { text: 'x' },
      { text: 'y', thoughtSignature: 'A' },
    ]);
    expect(parts(seal('google:A'), seal('google:B'), text('x'), call)).toEqual([
      { text: '', thoughtSignature: 'A' },
      { text: 'x', thoughtSignature: 'B' },
      { functionCall: { id: 'c', name: 'f', args: {} }, thoughtSignature: 'C' },
    ]);
    expect(parts(seal('ErUBCkYIA'), { type: 'encrypted_reasoning', data: 'gAAAA' }, text('x'))).toEqual([
      { text: 'x' },
    ]);
  });

  it('declares tools and how to choose among them', () => {
    const tools = [
      { name: 'a', description: 'd', parameters: { type: 'object', properties: { x: { type: 'string' } } } },
      { name: 'b', parameters: { type: 'object', properties: {} } },
    ];
    const config = (toolChoice: Conversation['toolChoice']) =>
      ask({ tools, ...(toolChoice === undefined ? {} : { toolChoice }) })['toolConfig'];
    expect(ask({ tools })['tools']).toEqual([
      {
        functionDeclarations: [
          { name: 'a', description: 'd', parametersJsonSchema: tools[0]?.parameters },
          { name: 'b' },
        ],
      },
    ]);
    expect(config(undefined)).toBeUndefined();
    expect(config('auto')).toEqual({ functionCallingConfig: { mode: 'AUTO' } });
    expect(config('none')).toEqual({ functionCallingConfig: { mode: 'NONE' } });
    expect(config('required')).toEqual({ functionCallingConfig: { mode: 'ANY' } });
    expect(config({ name: 'b' })).toEqual({
      functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['b'] },
    });
    expect(ask({ toolChoice: 'auto' })).not.toHaveProperty('toolConfig');
  });

  it('refuses parallel_tool_calls false where there are tools', () => {
    const tools = [{ name: 'a', parameters: {} }];
    expect(() => ask({ tools, parallelToolCalls: false })).toThrow(WireError);
    expect(() => ask({ tools, parallelToolCalls: false })).toThrow(/parallel_tool_calls/);
    ask({ parallelToolCalls: false });
    ask({ tools, parallelToolCalls: true });
  });

  it('carries the sampling settings', () => {
    expect(
      ask({
        temperature: 0.5,
        topP: 0.9,
        topK: 3,
        seed: 2 ** 31 + 5,
        presencePenalty: 1,
        frequencyPenalty: -1,
        stop: ['a', 'b'],
        topLogprobs: 2,
      }).generationConfig,
    ).toEqual({
      maxOutputTokens: 1000,
      temperature: 0.5,
      topP: 0.9,
      topK: 3,
      seed: -(2 ** 31) + 5,
      presencePenalty: 1,
      frequencyPenalty: -1,
      stopSequences: ['a', 'b'],
      responseLogprobs: true,
      logprobs: 2,
    });
    expect(ask().generationConfig).toEqual({ maxOutputTokens: 1000 });
    expect(ask({ topLogprobs: 0 }).generationConfig).toEqual({
      maxOutputTokens: 1000,
      responseLogprobs: true,
    });
  });

  it('asks for JSON, with a schema or without', () => {
    const schema = {
      $schema: 'x',
      type: 'object',
      properties: { a: { const: 1 } },
      additionalProperties: false,
    };
    expect(ask({ format: { type: 'json' } }).generationConfig).toMatchObject({
      responseMimeType: 'application/json',
    });
    expect(ask({ format: { type: 'schema', name: 's', schema } }).generationConfig).toMatchObject({
      responseMimeType: 'application/json',
      responseJsonSchema: { type: 'object', properties: { a: { enum: [1] } }, additionalProperties: false },
    });
  });

  it('uses thinking levels where the model has them, else a budget', () => {
    const thinking = (reasoning: Conversation['reasoning'], model: Partial<Model> = {}, maxTokens = 10_000) =>
      ask(reasoning ? { reasoning } : {}, model, maxTokens).generationConfig['thinkingConfig'];
    const levels: Partial<Model> = { efforts: ['low', 'high'] };
    expect(thinking(undefined)).toBeUndefined();
    expect(thinking({ effort: 'medium' }, levels)).toEqual({ thinkingLevel: 'low', includeThoughts: true });
    expect(thinking({ effort: 'max' }, levels)).toEqual({ thinkingLevel: 'high', includeThoughts: true });
    expect(thinking({ effort: 'none' }, levels)).toEqual({ thinkingLevel: 'low', includeThoughts: false });
    expect(thinking({ effort: 'none' })).toEqual({ thinkingBudget: 0, includeThoughts: false });
    expect(thinking({ effort: 'medium' })).toEqual({ thinkingBudget: 5000, includeThoughts: true });
    expect(thinking({ effort: 'minimal' }, {}, 1000)).toEqual({ thinkingBudget: 512, includeThoughts: true });
    expect(thinking({ effort: 'high' }, {}, 60_000)).toEqual({
      thinkingBudget: 24_576,
      includeThoughts: true,
    });
    expect(thinking({ maxTokens: 700 })).toEqual({ thinkingBudget: 700, includeThoughts: true });
    expect(thinking({ maxTokens: 70_000 })).toEqual({ thinkingBudget: 10_000, includeThoughts: true });
    expect(thinking({ effort: 'high' }, { caps: new Set(['chat']) })).toBeUndefined();
  });

  it('is refused, not an internal error, where a schema is nested too deeply', () => {
    let schema: Record<string, unknown> = {};
    for (let depth = 0; depth < 20_000; depth++) schema = { type: 'array', items: schema };
    expect(() => ask({ format: { type: 'schema', name: 's', schema } })).toThrow(WireError);
  });
});

describe('a schema for Google', () => {
  it.each([
    [true, true],
    [{ minProperties: 1, default: 3, exclusiveMinimum: 2, type: 'integer' }, { type: 'integer' }],
    [
      { definitions: { a: { type: 'string' } }, properties: { x: { $ref: '#/definitions/a', title: 't' } } },
      { $defs: { a: { type: 'string' } }, properties: { x: { $ref: '#/$defs/a' } } },
    ],
    [
      {
        allOf: [
          { properties: { a: { type: 'string' } }, required: ['a'] },
          { properties: { b: {} }, required: ['b'] },
        ],
        type: 'object',
      },
      { properties: { a: { type: 'string' }, b: {} }, required: ['a', 'b'], type: 'object' },
    ],
    [{ allOf: [{ $ref: '#/$defs/a' }], description: 'd' }, { $ref: '#/$defs/a' }],
    [{ type: 'string', nullable: true }, { type: ['string', 'null'] }],
    [
      { oneOf: [{ const: 'a' }, { not: {} }], prefixItems: [{ default: 1 }], items: { if: {} } },
      { oneOf: [{ enum: ['a'] }, {}], prefixItems: [{}], items: {} },
    ],
    // Names of members are no keywords.
    [
      {
        type: 'object',
        properties: { default: { type: 'null' }, const: { not: {} } },
        required: ['default'],
      },
      { type: 'object', properties: { default: { type: 'null' }, const: {} }, required: ['default'] },
    ],
  ])('of %j is reduced to what Google supports', (schema, reduced) => {
    expect(reduceSchema(schema)).toEqual(reduced);
  });
});
