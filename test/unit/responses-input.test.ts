import { describe, expect, test } from 'vitest';
import { HttpError } from '../../src/http/error.ts';
import { ownItems, readRequest } from '../../src/planes/v1/responses-input.ts';
import { createResponseRequest } from '../../src/wires/responses/server-schema.ts';

const inputOf = (request: object) => {
  const body = createResponseRequest(false).parse({ input: 'hi', ...request });
  return readRequest(body, { earlier: [], own: ownItems(body) }, undefined).input;
};
const refusalOf = (request: object) => {
  try {
    inputOf(request);
  } catch (error) {
    if (error instanceof HttpError) return error;
    throw error;
  }
  throw new Error('it was not refused');
};
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tool = (name: string) => ({ type: 'function', name, description: 'd', parameters, strict: true });

describe('a response request as a conversation', () => {
  test('a text is a user message; instructions precede it', () => {
    expect(inputOf({})).toEqual({ messages: [{ role: 'user', content: 'hi' }] });
    expect(inputOf({ input: [{ type: null, role: 'user', content: 'hi' }] })).toEqual(inputOf({}));
    expect(inputOf({ instructions: 'Be brief.' }).messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
    ]);
  });

  test('reasoning, text and calls of the assistant form one turn; outputs carry the name of their call', () => {
    const { messages } = inputOf({
      instructions: 'Be brief.',
      input: [
        { role: 'developer', content: 'Be kind.' },
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'input_text', text: 'a' },
            { type: 'input_text', text: 'b' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] },
        {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          status: 'completed',
          phase: 'commentary',
          content: [
            { type: 'output_text', text: 'I ', annotations: [], logprobs: [] },
            { type: 'output_text', text: 'look.', annotations: [] },
          ],
        },
        {
          type: 'function_call',
          id: 'fc_1',
          call_id: 'call_1',
          name: 'weather',
          arguments: '{"city":"Oslo"}',
        },
        {
          type: 'function_call',
          call_id: 'call_2',
          name: 'time',
          arguments: 'not JSON',
          status: 'completed',
        },
        { type: 'function_call_output', call_id: 'call_2', output: 'noon' },
        { type: 'function_call_output', call_id: 'call_1', output: [{ type: 'input_text', text: 'rain' }] },
        { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] },
        { role: 'user', content: 'c' },
        { role: 'user', content: 'd' },
      ],
    });
    expect(messages).toEqual([
      { role: 'system', content: 'Be brief.\n\nBe kind.' },
      { role: 'user', content: 'a\nb' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning: 'hm',
        toolCalls: [
          { id: 'call_1', name: 'weather', arguments: { city: 'Oslo' } },
          { id: 'call_2', name: 'time', arguments: 'not JSON' },
        ],
      },
      { role: 'tool', content: 'noon', callId: 'call_2', name: 'time' },
      { role: 'tool', content: 'rain', callId: 'call_1', name: 'weather' },
      { role: 'assistant', content: 'No.' },
      { role: 'user', content: 'c' },
      { role: 'user', content: 'd' },
    ]);
  });

  test('reasoning is read from its content, else its summary; encrypted content is ignored', () => {
    const thoughts = (item: object) =>
      inputOf({
        input: [
          { type: 'reasoning', ...item },
          { role: 'assistant', content: 'x' },
        ],
      }).messages;
    const summary = [{ type: 'summary_text', text: 's' }];
    const content = [{ type: 'reasoning_text', text: 'c' }];
    expect(thoughts({ summary, content })).toMatchObject([{ reasoning: 'c' }]);
    expect(thoughts({ summary })).toMatchObject([{ reasoning: 's' }]);
    expect(thoughts({ summary: [], encrypted_content: 'xyz' })).toEqual([
      { role: 'assistant', content: 'x' },
    ]);
  });

  test('tools, their choice and their number', () => {
    const tools = [tool('weather'), { type: 'function', name: 'time' }];
    expect(inputOf({ tools, parallel_tool_calls: false })).toMatchObject({
      tools: [{ name: 'weather', description: 'd', parameters, strict: true }, { name: 'time' }],
      toolChoice: 'auto',
      parallelToolCalls: false,
    });
    expect(inputOf({ tools, tool_choice: 'required' }).toolChoice).toBe('required');
    expect(inputOf({ tools, tool_choice: 'none' }).toolChoice).toBe('none');
    expect(inputOf({ tools, tool_choice: { type: 'function', name: 'time' } }).toolChoice).toEqual({
      name: 'time',
    });
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'time' }] };
    expect(inputOf({ tools, tool_choice: allowed })).toMatchObject({
      tools: [{ name: 'time' }],
      toolChoice: 'required',
    });
    expect(inputOf({ tools: [], tool_choice: 'none' })).toEqual(inputOf({}));
  });

  test.each([
    [{ text: { format: { type: 'text' } } }, undefined],
    [{ text: { format: { type: 'json_object' } } }, { kind: 'json' }],
    [
      { text: { format: { type: 'json_schema', name: 'x', schema: parameters, strict: true } } },
      { kind: 'json_schema', schema: parameters },
    ],
  ])('%j is the answer format', (request, output) => {
    expect(inputOf(request).output).toEqual(output);
  });

  test.each([
    ['none', false],
    ['minimal', 'low'],
    ['low', 'low'],
    ['medium', 'medium'],
    ['high', 'high'],
    ['xhigh', 'high'],
    ['max', 'high'],
    [null, undefined],
  ])('the effort %s is %s', (effort, thinking) => {
    expect(inputOf({ reasoning: { effort } }).thinking).toBe(thinking);
  });

  test('every contradiction is reported at once', () => {
    const { violations } = refusalOf({
      input: [
        { type: 'function_call_output', call_id: 'call_9', output: 'x' },
        { type: 'function_call', call_id: 'call_9', name: 'a', arguments: '{}' },
      ],
      tools: [tool('a'), tool('a')],
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'b' }] },
    });
    expect(violations?.map(({ path }) => path)).toEqual([
      'input.0.call_id',
      'tools.1.name',
      'tool_choice.tools.0.name',
    ]);
    expect(violations?.[0]?.message).toContain('send the call with its output');
    expect(violations?.[2]?.message).toContain("the tools are 'a'");
  });

  test('a choice that needs tools is refused without them', () => {
    expect(refusalOf({ tool_choice: 'required' }).param).toBe('tool_choice');
    expect(refusalOf({ tool_choice: { type: 'function', name: 'a' } }).param).toBe('tool_choice.name');
  });

  test('tools that are too large in total are refused before they are written into a prompt', () => {
    const large = { type: 'object', enum: Array<number>(15_000).fill(1) };
    const tools = Array.from({ length: 7 }, (_, index) => ({
      type: 'function',
      name: `t${index}`,
      parameters: large,
    }));
    expect(refusalOf({ tools }).violations).toMatchObject([
      { path: 'tools', message: expect.stringContaining('at most 100000 values') },
    ]);
    expect(inputOf({ tools: tools.slice(0, 6) }).tools?.length).toBe(6);
  });
});
