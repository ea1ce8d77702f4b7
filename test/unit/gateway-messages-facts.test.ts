import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { maxInputTokens } from '../../src/gateway/catalog/price.ts';
import { WireError } from '../../src/wires/core/error.ts';
import { messagesWire } from '../../src/wires/messages/client.ts';
import type { RequestFacts } from '../../src/wires/core/wire.ts';

const facts = (body: object): RequestFacts =>
  messagesWire.facts(body as Record<string, unknown>, JSON.stringify(body));
const minimal = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] };
const read = (body: object) => {
  const text = JSON.stringify(body);
  return messagesWire.conversation({
    text,
    body: JSON.parse(text),
    facts: facts(body),
    header: () => undefined,
  });
};
const refusal = (act: () => unknown): WireError => {
  try {
    act();
  } catch (error) {
    if (error instanceof WireError) return error;
    throw error;
  }
  throw new Error('expected a refusal');
};

describe('facts', () => {
  it('of a minimal request', () => {
    expect(facts(minimal)).toEqual({
      model: 'm',
      stream: false,
      includeUsage: true,
      maxTokens: 5,
      answers: 1,
      needs: [],
      textBytes: 2,
      parts: 1,
      images: 0,
      fileBytes: 0,
      prefix: 'Hi',
    });
  });

  it('counts system, messages, tools, thinking and results; images and files separately', () => {
    const tool = { name: 'f', input_schema: { type: 'object' } };
    const image = {
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(4000) },
    };
    const call = { type: 'tool_use', id: 'a', name: 'f', input: { q: 'é' } };
    const found = facts({
      ...minimal,
      stream: true,
      system: [{ type: 'text', text: 'Sé' }],
      tools: [tool],
      thinking: { type: 'enabled', budget_tokens: 1024 },
      output_config: { format: { type: 'json_schema', schema: {} } },
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'One' }, image] },
        { role: 'assistant', content: [call] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'a', content: [image, { type: 'text', text: 'Two' }] },
            { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' } },
            { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Three' } },
          ],
        },
        { role: 'system', content: 'Four' },
      ],
    });
    const format = '{"type":"json_schema","schema":{}}';
    const bytes = (text: string) => Buffer.byteLength(text);
    expect(found).toMatchObject({
      stream: true,
      images: 2,
      fileBytes: 3,
      prefix: 'SéOneTwoThreeFour',
      textBytes:
        bytes('SéOneTwoThreeFour') +
        bytes(JSON.stringify(tool)) +
        bytes(JSON.stringify(call)) +
        bytes(format),
      needs: [
        { cap: 'tools', param: 'tools' },
        { cap: 'images', param: 'messages.0.content.1' },
        { cap: 'reasoning', param: 'thinking' },
        { cap: 'structured_output', param: 'output_config.format' },
      ],
    });
  });

  it('a referenced document has an unknown size', () => {
    const document = { type: 'document', source: { type: 'url', url: 'https://a/b.pdf' } };
    const found = facts({ ...minimal, messages: [{ role: 'user', content: [document] }] });
    expect(maxInputTokens({ contextWindow: 200_000, family: 'anthropic' }, found)).toBe(200_000n);
  });

  it('never counts less than there are bytes of text, and the prefix is at most 4 KiB', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' })), (texts) => {
        const blocks = texts.map((text) => ({ type: 'text', text }));
        const found = facts({ ...minimal, messages: [{ role: 'user', content: blocks }] });
        expect(found.textBytes).toBe(Buffer.byteLength(texts.join('')));
      }),
    );
    expect(facts({ ...minimal, system: 'x'.repeat(10_000) }).prefix).toBe('x'.repeat(4096));
  });

  it('max_tokens of 0 only fills the cache', () => {
    expect(facts({ ...minimal, max_tokens: 0 }).maxTokens).toBe(0);
  });

  it('reports all violations at once', () => {
    const error = refusal(() =>
      facts({
        model: '',
        stream: 'yes',
        tools: {},
        messages: ['Hi', { content: 5 }, { role: 'user', content: [null] }],
      }),
    );
    expect(error).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: undefined,
      param: 'model',
    });
    expect(error.violations?.map(({ path }) => path)).toEqual([
      'model',
      'max_tokens',
      'stream',
      'tools',
      'messages.0',
      'messages.1.role',
      'messages.1.content',
      'messages.2.content.0',
    ]);
    expect(error.message).toContain('max_tokens: is required');
    for (const messages of [undefined, [], 'Hi'])
      expect(refusal(() => facts({ model: 'm', max_tokens: 1, messages })).param).toBe('messages');
    for (const max_tokens of [-1, 1.5, '5', null])
      expect(refusal(() => facts({ ...minimal, max_tokens })).param).toBe('max_tokens');
  });
});

describe('members with unbounded cost are refused', () => {
  it.each<[string, object]>([
    ['tools.0.type', { tools: [{ type: 'web_search_20260318', name: 'web_search' }] }],
    ['tools.0.type', { tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] }],
    ['tools.0.type', { tools: [{ type: 'advisor_20260301', name: 'advisor' }] }],
    ['tools.0.type', { tools: [{ type: 'mcp_toolset', name: 'x' }] }],
    ['mcp_servers', { mcp_servers: [{ type: 'url', url: 'https://a', name: 'a' }] }],
    ['fallbacks', { fallbacks: [{ model: 'dear' }] }],
    ['speed', { speed: 'fast' }],
    ['inference_geo', { inference_geo: 'us' }],
    ['compaction', { compaction: { type: 'summarize' } }],
    ['context_management.edits.0.type', { context_management: { edits: [{ type: 'compact_20260112' }] } }],
  ])('%s: %j', (param, more) => {
    const error = refusal(() => facts({ ...minimal, ...more }));
    expect(error).toMatchObject({ status: 400, code: 'unsupported_parameter', param });
  });

  it.each<object>([
    { tools: [{ type: 'bash_20250124', name: 'bash' }] },
    { tools: [{ type: 'text_editor_20250728', name: 'e' }] },
    { tools: [{ type: 'memory_20250818', name: 'memory' }] },
    { tools: [{ type: 'custom', name: 'f', input_schema: {} }] },
    { speed: 'standard', mcp_servers: [], fallbacks: null, inference_geo: 'global' },
    { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } },
  ])('tools that the caller runs are accepted: %j', (more) => {
    expect(() => facts({ ...minimal, ...more })).not.toThrow();
  });

  it('tools that a message adds are tools', () => {
    const added = (definition: object) => ({
      ...minimal,
      messages: [
        ...minimal.messages,
        {
          role: 'system',
          content: [{ type: 'tool_addition', tool: { type: 'tool_definition', definition } }],
        },
      ],
    });
    const path = 'messages.1.content.0.tool.definition';
    expect(facts(added({ name: 'f', input_schema: {} })).needs).toEqual([{ cap: 'tools', param: path }]);
    const error = refusal(() => facts(added({ type: 'web_search_20260318', name: 'web_search' })));
    expect(error).toMatchObject({ code: 'unsupported_parameter', param: `${path}.type` });
  });

  it('a system message may be empty', () => {
    const quiet = { role: 'system', output_config: { effort: 'low' } };
    expect(() => facts({ ...minimal, messages: [...minimal.messages, quiet] })).not.toThrow();
  });

  it('provider-defined tools are counted with the instructions the provider adds', () => {
    const found = facts({ ...minimal, tools: [{ type: 'text_editor_20250728', name: 'e' }] });
    expect(maxInputTokens({ contextWindow: 200_000, family: 'anthropic' }, found)).toBeGreaterThan(1400n);
  });

  it('a thread is refused with the code on which the client resends all messages', () => {
    const error = refusal(() => facts({ ...minimal, thread: { id: 't' } }));
    expect(messagesWire.errorBody(error, 'r')).toMatchObject({
      error: {
        param: 'thread',
        details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
      },
    });
  });
});

describe('a conversation', () => {
  it('has everything that other wires can express', () => {
    const conversation = read({
      ...minimal,
      system: [{ type: 'text', text: 'S', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'url', url: 'https://a/b' } },
            { type: 'text', text: '' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 's' },
            { type: 'redacted_thinking', data: 'd' },
            { type: 'text', text: 'T', cache_control: { type: 'ephemeral' } },
            { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'a', content: 'R', is_error: true },
            { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'D' }, title: 't' },
          ],
        },
        { role: 'system', content: 'Late' },
      ],
      tools: [
        {
          name: 'f',
          description: 'd',
          input_schema: { type: 'object' },
          strict: true,
          cache_control: { type: 'ephemeral' },
        },
      ],
      tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
      thinking: { type: 'enabled', budget_tokens: 2000 },
      output_config: { format: { type: 'json_schema', schema: { type: 'object' } } },
      temperature: 0.5,
      top_p: 0.9,
      top_k: 3,
      stop_sequences: ['END'],
      metadata: { user_id: 'u' },
    });
    expect(conversation).toEqual({
      messages: [
        { role: 'system', parts: [{ type: 'text', text: 'S', cache: { ttl: '1h' } }] },
        { role: 'user', parts: [{ type: 'image', source: { url: 'https://a/b' } }] },
        {
          role: 'assistant',
          parts: [
            { type: 'reasoning', text: 'hm', signature: 'anthropic:s' },
            { type: 'encrypted_reasoning', data: 'anthropic:d' },
            { type: 'text', text: 'T', cache: {} },
            { type: 'tool_call', id: 'a', name: 'f', arguments: '{"x":1}' },
          ],
        },
        {
          role: 'tool',
          parts: [
            { type: 'tool_result', id: 'a', name: 'f', parts: [{ type: 'text', text: 'R' }], failed: true },
          ],
        },
        { role: 'user', parts: [{ type: 'file', mediaType: 'text/plain', data: 'RA==', name: 't' }] },
        { role: 'system', parts: [{ type: 'text', text: 'Late' }] },
      ],
      tools: [{ name: 'f', description: 'd', parameters: { type: 'object' }, strict: true, cache: {} }],
      toolChoice: { name: 'f' },
      parallelToolCalls: false,
      maxTokens: 5,
      temperature: 0.5,
      topP: 0.9,
      topK: 3,
      stop: ['END'],
      reasoning: { maxTokens: 2000 },
      format: { type: 'schema', name: 'answer', schema: { type: 'object' }, strict: true },
      user: 'u',
    });
  });

  it('numbers in calls are preserved', () => {
    const text =
      '{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"id":12345678901234567890}}]}]}';
    const { messages } = messagesWire.conversation({
      text,
      body: JSON.parse(text),
      facts: facts(JSON.parse(text)),
      header: () => undefined,
    });
    expect(messages[0]?.parts[0]).toMatchObject({ arguments: '{"id":12345678901234567890}' });
  });

  it.each<[object, object | undefined]>([
    [{}, undefined],
    [{ thinking: { type: 'disabled' } }, { effort: 'none' }],
    [{ thinking: { type: 'adaptive' } }, { effort: 'high' }],
    [{ thinking: { type: 'adaptive' }, output_config: { effort: 'low' } }, { effort: 'low' }],
    [{ output_config: { effort: 'max' } }, { effort: 'max' }],
  ])('reasoning of %j', (more, reasoning) => {
    expect(read({ ...minimal, ...more }).reasoning).toEqual(reasoning);
  });

  it('a cache breakpoint of the whole request is set on its last part', () => {
    const { messages } = read({ ...minimal, cache_control: { type: 'ephemeral', ttl: '5m' } });
    expect(messages[0]?.parts).toEqual([{ type: 'text', text: 'Hi', cache: { ttl: '5m' } }]);
  });

  it('refuses what no other wire supports, all at once', () => {
    const error = refusal(() =>
      read({
        ...minimal,
        messages: [
          { role: 'robot', content: 'x' },
          {
            role: 'user',
            content: [
              { type: 'search_result' },
              { type: 'document', source: { type: 'url', url: 'https://a' } },
            ],
          },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: 'x' }] },
        ],
        tools: [{ type: 'bash_20250124', name: 'bash' }, { name: 'f' }],
        tool_choice: 'auto',
      }),
    );
    // Some of it is malformed besides.
    expect(error.code).toBeUndefined();
    expect(error.violations?.map(({ path }) => path)).toEqual([
      'messages.0.role',
      'messages.1.content.0.type',
      'messages.1.content.1.source',
      'messages.2.content.0',
      'tools.0.type',
      'tools.1.input_schema',
      'tool_choice',
    ]);
  });
});
