/** Conversion of Ollama's conversations for the chat layer. */
import { describe, expect, it } from 'vitest';
import { toChatInput } from '../../src/planes/ollama/chat-input.ts';
import { chatRequest } from '../../src/wires/ollama/chat-schema.ts';

const turnsOf = (messages: readonly object[]) =>
  toChatInput(chatRequest.parse({ model: 'm', messages }), {}).messages;
const call = (name: string, id?: string) => ({ ...(id ? { id } : {}), function: { name, arguments: {} } });
const result = (members: object) => ({ role: 'tool', content: 'r', ...members });
const idsOf = (messages: readonly object[]) =>
  turnsOf(messages).map((turn) =>
    turn.role === 'assistant'
      ? turn.toolCalls?.map(({ id }) => id)
      : turn.role === 'tool'
        ? (turn.callId ?? turn.name)
        : turn.role,
  );

describe('results of calls', () => {
  it('find their call by name, in any order', () => {
    const calls = { role: 'assistant', tool_calls: [call('a'), call('b'), call('a')] };
    const named = [{ tool_name: 'b' }, { tool_name: 'a' }, { name: 'a' }];
    expect(idsOf([calls, ...named.map(result)])).toEqual([
      ['call_0', 'call_1', 'call_2'],
      'call_1',
      'call_0',
      'call_2',
    ]);
  });

  it('find it by order where they have no name; the id takes precedence', () => {
    const calls = { role: 'assistant', tool_calls: [call('a', 'x'), call('b'), call('c', 'z')] };
    expect(idsOf([calls, result({}), result({ tool_call_id: 'z', tool_name: 'b' }), result({})])).toEqual([
      ['x', 'call_0', 'z'],
      'x',
      'z',
      'call_0',
    ]);
  });

  it('refer to the calls right before them only', () => {
    const calls = { role: 'assistant', tool_calls: [call('a')] };
    const more = { role: 'assistant', tool_calls: [call('b')] };
    const user = { role: 'user', content: 'go on' };
    expect(idsOf([calls, user, more, result({ tool_name: 'a' }), result({ tool_name: 'b' })])).toEqual([
      ['call_0'],
      'user',
      ['call_1'],
      'a',
      'call_1',
    ]);
  });
});

it("the model's own system text comes first where the conversation has none", () => {
  const hi = { role: 'user', content: 'hi' };
  const system = (messages: readonly object[]) =>
    toChatInput(chatRequest.parse({ messages }), { system: 'mine' }).messages.map(({ content }) => content);
  expect(system([hi])).toEqual(['mine', 'hi']);
  expect(system([{ role: 'system', content: 'yours' }, hi])).toEqual(['yours', 'hi']);
});
