import { describe, expect, test } from 'vitest';
import { chatWire } from '../../src/wires/chat/client.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import type { ChatChunk, ChatCompletion } from '../../src/wires/chat/answer-schema.ts';
import { dataOf, residentAbout } from '../support/resident-about.ts';

const end = (reason: 'stop' | 'tool_calls', reasoning = 0): AnswerEvent[] => [
  {
    type: 'usage',
    usage: { fresh: 3, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 2, output: 9, reasoning },
  },
  { choice: 0, type: 'finish', reason },
];
const tokenLogprobs = [{ token: 'a', logprob: -1, bytes: [97], top_logprobs: [] }];
/** Reasoning, a text and two calls whose arguments are interleaved. */
const all: AnswerEvent[] = [
  { choice: 0, type: 'reasoning', text: 'Hm', logprobs: tokenLogprobs },
  { choice: 0, type: 'reasoning', text: 'm' },
  { choice: 0, type: 'text', text: 'a', logprobs: tokenLogprobs },
  { choice: 0, type: 'tool_call', index: 0, id: 'call_a', name: 'f' },
  { choice: 0, type: 'tool_arguments', index: 0, text: '{"x":' },
  { choice: 0, type: 'tool_call', index: 1, id: 'call_b', name: 'g' },
  { choice: 0, type: 'tool_arguments', index: 0, text: '1}' },
  { choice: 0, type: 'tool_arguments', index: 1, text: '{}' },
  ...end('tool_calls', 4),
];
/** Without a request for log probabilities there are none. */
const untold = all.map(
  (event): AnswerEvent =>
    event.type === 'text' || event.type === 'reasoning'
      ? { choice: 0, type: event.type, text: event.text }
      : event,
);
const withLogprobs = { logprobs: true };
const written = (events: readonly AnswerEvent[], body = {}) =>
  chatWire.body(events, residentAbout(body)) as ChatCompletion;
const streamed = (events: readonly AnswerEvent[], body = {}) => {
  const writer = chatWire.writer(residentAbout(body));
  return dataOf<ChatChunk>(events.map((event) => writer.write(event)).join('')).flatMap(
    ({ choices }) => choices,
  );
};

describe("a conversation's answer on OpenAI's wire", () => {
  test('buffered: reasoning under both names, calls with arguments as text, reasoning tokens counted', () => {
    const { choices, usage: sum } = written(all);
    expect(choices).toEqual([
      {
        index: 0,
        message: {
          role: 'assistant',
          content: 'a',
          refusal: null,
          reasoning_content: 'Hmm',
          reasoning: 'Hmm',
          tool_calls: [
            { id: 'call_a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
            { id: 'call_b', type: 'function', function: { name: 'g', arguments: '{}' } },
          ],
        },
        logprobs: null,
        finish_reason: 'tool_calls',
      },
    ]);
    expect(sum).toEqual({
      prompt_tokens: 5,
      completion_tokens: 9,
      total_tokens: 14,
      prompt_tokens_details: { cached_tokens: 2, cache_write_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 4 },
    });
  });

  test('content is null where there are only calls, and a text, possibly empty, otherwise', () => {
    const calls = all.filter(({ type }) => type.startsWith('tool') || type === 'finish' || type === 'usage');
    expect(written(calls).choices[0]?.message.content).toBe(null);
    const nothing = written(end('stop')).choices[0]?.message;
    expect(nothing).toEqual({ role: 'assistant', content: '', refusal: null });
    expect(streamed(calls)[0]?.delta).toEqual({ role: 'assistant', content: null, refusal: null });
    expect(streamed(end('stop'))[0]?.delta).toEqual({ role: 'assistant', content: '', refusal: null });
  });

  test('streamed: the role comes first; id, type and name only on the first piece of a call; the index on every piece', () => {
    expect(streamed(all).map(({ delta }) => delta)).toEqual([
      { role: 'assistant', content: '', refusal: null },
      { reasoning_content: 'Hm', reasoning: 'Hm' },
      { reasoning_content: 'm', reasoning: 'm' },
      { content: 'a' },
      { tool_calls: [{ index: 0, id: 'call_a', type: 'function', function: { name: 'f', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"x":' } }] },
      { tool_calls: [{ index: 1, id: 'call_b', type: 'function', function: { name: 'g', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '1}' } }] },
      { tool_calls: [{ index: 1, function: { arguments: '{}' } }] },
      {},
    ]);
    expect(streamed(all).map(({ finish_reason }) => finish_reason)).toEqual([
      ...Array(9).fill(null),
      'tool_calls',
    ]);
  });

  test('log probabilities cover the text but not the reasoning, and only where requested', () => {
    const entry = { token: 'a', logprob: -1, bytes: [97], top_logprobs: [] };
    const { choices } = written(all, withLogprobs);
    expect(choices[0]?.logprobs).toEqual({ content: [entry], refusal: null });
    const logprobs = streamed(all, withLogprobs).map((choice) => choice.logprobs);
    expect(logprobs.filter((one) => one !== null)).toEqual([{ content: [entry], refusal: null }]);
    expect(streamed(untold).every((choice) => choice.logprobs === null)).toBe(true);
  });
});
