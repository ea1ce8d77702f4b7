import { describe, expect, test } from 'vitest';
import { toChatInput } from '../../src/planes/messages/input.ts';
import { messageRequest } from '../../src/wires/messages/request-schema.ts';
import { HttpError } from '../../src/http/error.ts';

const hi = { role: 'user', content: 'hi' };
const inputOf = (request: object) =>
  toChatInput(messageRequest.parse({ max_tokens: 9, messages: [hi], ...request }));
const refusalOf = (request: object) => {
  try {
    inputOf(request);
  } catch (error) {
    if (error instanceof HttpError) return error;
    throw error;
  }
  throw new Error('it was not refused');
};
const use = (id: string, name = 'weather') => ({ type: 'tool_use', id, name, input: { city: 'Oslo' } });
const result = (tool_use_id: string, more: object = {}) => ({ type: 'tool_result', tool_use_id, ...more });
const text = (words: string) => ({ type: 'text', text: words, cache_control: { type: 'ephemeral' } });
const input_schema = { type: 'object', properties: {} };

describe('a message request as a conversation', () => {
  test('the system prompt comes first, as a text or as blocks', () => {
    const messages = [{ role: 'system', content: 'S\nT' }, hi];
    expect(inputOf({ system: 'S\nT' })).toEqual({ messages });
    expect(inputOf({ system: [text('S'), text('T')] })).toEqual({ messages });
    expect(inputOf({ system: '' })).toEqual({ messages: [hi] });
  });

  test('consecutive messages of a role are merged, including system messages', () => {
    const { messages } = inputOf({
      system: 'S',
      messages: [
        { role: 'system', content: [text('T')] },
        hi,
        { role: 'user', content: [text('a'), text('b')] },
        { role: 'assistant', content: 'c' },
        { role: 'assistant', content: [text('d'), text('e')] },
        { role: 'system', content: 'U' },
        hi,
      ],
    });
    expect(messages).toEqual([
      { role: 'system', content: 'S\n\nT' },
      { role: 'user', content: 'hi\n\na\nb' },
      { role: 'assistant', content: 'c\nde' },
      { role: 'system', content: 'U' },
      hi,
    ]);
  });

  test('thinking, text and calls form one turn; results come first and carry the name of their call', () => {
    const { messages } = inputOf({
      messages: [
        hi,
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 'x' },
            { type: 'redacted_thinking', data: 'y' },
            text('I look.'),
            use('toolu_1'),
            use('toolu_2', 'time'),
          ],
        },
        {
          role: 'user',
          content: [
            text('and?'),
            result('toolu_2', { content: 'no clock', is_error: true }),
            result('toolu_1', { content: [text('rain'), text('wind')] }),
          ],
        },
        { role: 'assistant', content: [use('toolu_3')] },
        { role: 'user', content: [result('toolu_3')] },
      ],
    });
    expect(messages).toEqual([
      hi,
      {
        role: 'assistant',
        content: 'I look.',
        reasoning: 'hm',
        toolCalls: [
          { id: 'toolu_1', name: 'weather', arguments: { city: 'Oslo' } },
          { id: 'toolu_2', name: 'time', arguments: { city: 'Oslo' } },
        ],
      },
      { role: 'tool', content: 'Error: no clock', callId: 'toolu_2', name: 'time' },
      { role: 'tool', content: 'rain\nwind', callId: 'toolu_1', name: 'weather' },
      { role: 'user', content: 'and?' },
      {
        role: 'assistant',
        content: '',
        toolCalls: [{ id: 'toolu_3', name: 'weather', arguments: { city: 'Oslo' } }],
      },
      { role: 'tool', content: '', callId: 'toolu_3', name: 'weather' },
    ]);
  });

  test('a last assistant message is continued, unless it is empty', () => {
    const messages = [hi, { role: 'assistant', content: 'The answer is ' }];
    expect(inputOf({ messages })).toEqual({ messages, continueLast: true });
    expect(inputOf({ messages: [hi, { role: 'assistant', content: [] }] })).toEqual({ messages: [hi] });
    const { param, message } = refusalOf({
      messages: [hi, { role: 'assistant', content: [use('toolu_1')] }],
    });
    expect(param).toBe('messages.1');
    expect(message).toContain('tool_result');
  });

  test('tools and their choice', () => {
    const tools = [
      { name: 'weather', description: 'd', input_schema, strict: true },
      { type: 'custom', name: 'time', input_schema },
    ];
    const defined = [
      { name: 'weather', description: 'd', parameters: input_schema, strict: true },
      { name: 'time', parameters: input_schema },
    ];
    const choice = (tool_choice?: object) => {
      const { messages: _, ...rest } = inputOf({ tools, tool_choice });
      return rest;
    };
    expect(choice()).toEqual({ tools: defined, toolChoice: 'auto' });
    expect(choice({ type: 'auto' })).toEqual({ tools: defined, toolChoice: 'auto' });
    expect(choice({ type: 'none' })).toEqual({ tools: defined, toolChoice: 'none' });
    expect(choice({ type: 'any', disable_parallel_tool_use: true })).toEqual({
      tools: defined,
      toolChoice: 'required',
      parallelToolCalls: false,
    });
    expect(choice({ type: 'tool', name: 'time' })).toEqual({ tools: defined, toolChoice: { name: 'time' } });
  });

  test.each([
    [{ thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, false],
    [{ thinking: { type: 'enabled', budget_tokens: 8 } }, true],
    [{ thinking: { type: 'enabled', budget_tokens: 8 }, output_config: { effort: 'max' } }, 'high'],
    [{ thinking: { type: 'adaptive' } }, undefined],
    [{ thinking: { type: 'between_tools' }, output_config: { effort: 'low' } }, 'low'],
    [{}, undefined],
  ])('%j is thinking %s', (request, thinking) => {
    expect(inputOf(request).thinking).toBe(thinking);
  });

  test('the answer format is read from both members', () => {
    const format = { type: 'json_schema', schema: { type: 'object' } };
    const other = { type: 'json_schema', schema: { type: 'string' } };
    expect(inputOf({ output_config: { format } }).output).toEqual({
      kind: 'json_schema',
      schema: format.schema,
    });
    expect(inputOf({ output_format: other }).output).toEqual({ kind: 'json_schema', schema: other.schema });
    expect(inputOf({ output_config: { format }, output_format: other }).output).toEqual({
      kind: 'json_schema',
      schema: format.schema,
    });
  });

  test('every contradiction is reported at once', () => {
    const { violations } = refusalOf({
      messages: [{ role: 'user', content: [text('x'), result('toolu_9')] }],
      tools: [
        { name: 'a', input_schema },
        { name: 'a', input_schema },
      ],
      tool_choice: { type: 'tool', name: 'b' },
      thinking: { type: 'enabled', budget_tokens: 9 },
    });
    expect(violations?.map(({ path }) => path)).toEqual([
      'messages.0.content.1.tool_use_id',
      'tools.1.name',
      'tool_choice.name',
      'thinking.budget_tokens',
    ]);
  });

  test('a required tool must be defined', () => {
    expect(refusalOf({ tool_choice: { type: 'any' } }).param).toBe('tool_choice');
  });

  test('tools that are too large in total are refused before they are written into a prompt', () => {
    const large = { type: 'object', enum: Array<number>(15_000).fill(1) };
    const tools = Array.from({ length: 7 }, (_, index) => ({ name: `t${index}`, input_schema: large }));
    expect(refusalOf({ tools }).violations).toMatchObject([
      { path: 'tools', message: expect.stringContaining('at most 100000 values') },
    ]);
    expect(inputOf({ tools: tools.slice(0, 6) }).tools?.length).toBe(6);
  });
});
