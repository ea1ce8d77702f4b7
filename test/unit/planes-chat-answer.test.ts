import { describe, expect, test } from 'vitest';
import { type ChatEvent, collectChat } from '../../src/planes/turn/chat.ts';
import { toChatCompletion, toChunkChoices } from '../../src/planes/v1/chat-answer.ts';
import { toChatLogprobs } from '../../src/planes/v1/logprobs.ts';
import type { TokenLogprob } from '../../src/engine/types.ts';
import { ByteTokenizer } from '../support/scripted-engine.ts';

const timings = { queued_ms: 0, prefill_ms: 0, decode_ms: 0 };
const usage = { prompt_tokens: 5, completion_tokens: 9, cached_tokens: 2 };
const head = { id: 'chatcmpl-1', created: 1, model: 'm', system_fingerprint: 'fp' };
const end = (finishReason: 'stop' | 'tool_calls', reasoningTokens = 0): ChatEvent => ({
  choice: 0,
  type: 'end',
  finishReason,
  usage,
  timings,
  reasoningTokens,
});
const told = [{ id: 97, logprob: -1, top: [] }];
/** Thoughts, a text and two calls whose arguments come in pieces, the second one's between the first one's. */
const all: ChatEvent[] = [
  { choice: 0, type: 'reasoning', text: 'Hm', logprobs: told },
  { choice: 0, type: 'reasoning', text: 'm' },
  { choice: 0, type: 'content', text: 'a', logprobs: told },
  { choice: 0, type: 'tool_call', index: 0, id: 'call_a', name: 'f' },
  { choice: 0, type: 'tool_arguments', index: 0, text: '{"x":' },
  { choice: 0, type: 'tool_call', index: 1, id: 'call_b', name: 'g' },
  { choice: 0, type: 'tool_arguments', index: 0, text: '1}' },
  { choice: 0, type: 'tool_arguments', index: 1, text: '{}' },
  end('tool_calls', 4),
];
async function* played(events: readonly ChatEvent[]): AsyncGenerator<ChatEvent> {
  yield* events;
}
const writer = (tokenizer: ByteTokenizer | undefined) =>
  tokenizer && ((entries: readonly TokenLogprob[]) => toChatLogprobs(tokenizer, entries));
const written = async (events: readonly ChatEvent[], tokenizer?: ByteTokenizer) =>
  toChatCompletion(head, await collectChat(played(events)), writer(tokenizer));
const streamed = (events: readonly ChatEvent[], tokenizer?: ByteTokenizer) => {
  const toChoices = toChunkChoices(writer(tokenizer));
  return events.flatMap((event) => [...toChoices(event)]);
};

describe("a conversation's answer on OpenAI's wire", () => {
  test('buffered: thoughts under both names, calls with their arguments as text, what was thought is counted', async () => {
    const { choices, usage: sum } = await written(all);
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

  test('content is null where there are calls alone, and a text, also an empty one, where there are none', async () => {
    const calls = all.filter(({ type }) => type.startsWith('tool') || type === 'end');
    expect((await written(calls)).choices[0]?.message.content).toBe(null);
    const nothing = (await written([end('stop')])).choices[0]?.message;
    expect(nothing).toEqual({ role: 'assistant', content: '', refusal: null });
    expect(streamed(calls)[0]?.delta).toEqual({ role: 'assistant', content: null, refusal: null });
    expect(streamed([end('stop')])[0]?.delta).toEqual({ role: 'assistant', content: '', refusal: null });
  });

  test('streamed: the role first; id, type and name on the first piece of a call alone; its index on every one', () => {
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

  test('log probabilities are those of the text, not of the thoughts, and only where they were asked for', async () => {
    const entry = { token: 'a', logprob: -1, bytes: [97], top_logprobs: [] };
    const { choices } = await written(all, new ByteTokenizer());
    expect(choices[0]?.logprobs).toEqual({ content: [entry], refusal: null });
    const logprobs = streamed(all, new ByteTokenizer()).map((choice) => choice.logprobs);
    expect(logprobs.filter((one) => one !== null)).toEqual([{ content: [entry], refusal: null }]);
    expect(streamed(all).every((choice) => choice.logprobs === null)).toBe(true);
  });
});
