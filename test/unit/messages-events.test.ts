import { MessageStream } from '@anthropic-ai/sdk/lib/MessageStream';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { messageEvent, messageObject } from '../../src/wires/messages/answer-schema.ts';
import { messagesWire } from '../../src/wires/messages/client.ts';
import { anyParts, type ChatEnd, chatEnd, chatEvents, type Part, textOf } from '../support/chat-events.ts';
import { dataOf, residentAbout } from '../support/resident-about.ts';

type MessageEvent = z.infer<typeof messageEvent>;
const written = (events: readonly AnswerEvent[], body = {}) => {
  const writer = messagesWire.writer(residentAbout(body));
  return dataOf<MessageEvent>(events.map((event) => writer.write(event)).join('') + writer.end());
};
const wholeOf = (events: readonly AnswerEvent[], body = {}) =>
  messageObject.strict().parse(messagesWire.body(events, residentAbout(body)));
const omitted = { thinking: { type: 'adaptive', display: 'omitted' } };
/** The progress of the prompt, of which four tokens were in the cache. */
const evaluated: AnswerEvent[] = [4, 12].map((processed) => ({
  choice: 0,
  type: 'progress',
  promptTokens: 12,
  processed,
  cached: 4,
  ms: 1,
}));
const mixed: Part[] = [
  { type: 'reasoning', pieces: ['Let me', ' see.'] },
  { type: 'content', pieces: ['I will ', 'look.'] },
  { type: 'call', name: 'weather', pieces: ['{"city":', '"Oslo"}'] },
  { type: 'call', name: 'time', pieces: [] },
];

describe('the events of a message', () => {
  test('come in the order of the wire, block by block, each in its format', () => {
    const events = written([...evaluated, ...chatEvents(mixed)]);
    const brief = (event: MessageEvent) => {
      if (event.type === 'content_block_start') return ['start', event.index, event.content_block.type];
      if (event.type === 'content_block_delta') return ['delta', event.index, event.delta.type];
      return event.type === 'content_block_stop' ? ['stop', event.index] : [event.type];
    };
    expect(events.map(brief)).toEqual([
      ['message_start'],
      ['start', 0, 'thinking'],
      ['delta', 0, 'thinking_delta'],
      ['delta', 0, 'thinking_delta'],
      ['delta', 0, 'signature_delta'],
      ['stop', 0],
      ['start', 1, 'text'],
      ['delta', 1, 'text_delta'],
      ['delta', 1, 'text_delta'],
      ['stop', 1],
      ['start', 2, 'tool_use'],
      ['delta', 2, 'input_json_delta'],
      ['delta', 2, 'input_json_delta'],
      ['stop', 2],
      ['start', 3, 'tool_use'],
      ['stop', 3],
      ['message_delta'],
      ['message_stop'],
    ]);
    for (const event of events) expect(messageEvent.parse(event)).toEqual(event);
  });

  test('begin with an empty message and empty blocks; cached tokens are counted separately at begin and end', () => {
    const answer = [...evaluated, ...chatEvents(mixed)];
    const events = written(answer);
    expect(events[0]).toEqual({
      type: 'message_start',
      message: {
        id: expect.stringMatching(/^msg_\w{32}$/),
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        stop_details: null,
        container: null,
        diagnostics: null,
        usage: expect.objectContaining({ input_tokens: 8, output_tokens: 0, cache_read_input_tokens: 4 }),
      },
    });
    expect(
      events.flatMap((event) => (event.type === 'content_block_start' ? [event.content_block] : [])),
    ).toEqual([
      { type: 'thinking', thinking: '', signature: '' },
      { type: 'text', text: '' },
      { type: 'tool_use', id: 'toolu_0x', name: 'weather', input: {}, caller: { type: 'direct' } },
      { type: 'tool_use', id: 'toolu_1x', name: 'time', input: {}, caller: { type: 'direct' } },
    ]);
    expect(events.at(-2)).toEqual({
      type: 'message_delta',
      delta: { stop_reason: 'tool_use', stop_sequence: null, stop_details: null, container: null },
      usage: {
        input_tokens: 8,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 4,
        cache_creation: { ephemeral_1h_input_tokens: 0, ephemeral_5m_input_tokens: 0 },
        output_tokens: 7,
        output_tokens_details: { thinking_tokens: 3 },
        server_tool_use: null,
      },
    });
    expect(wholeOf(answer)).toMatchObject({
      stop_reason: 'tool_use',
      content: [
        { type: 'thinking', thinking: 'Let me see.', signature: expect.stringMatching(/^[\w+/]{43}=$/) },
        { type: 'text', text: 'I will look.' },
        { type: 'tool_use', input: { city: 'Oslo' } },
        { type: 'tool_use', input: {} },
      ],
      usage: { input_tokens: 8, cache_read_input_tokens: 4, output_tokens: 7, service_tier: 'standard' },
    });
  });

  test('an answer without content begins with the prompt usage of its end', () => {
    const [start, end] = written(chatEnd());
    expect(start).toMatchObject({
      message: { usage: { input_tokens: 8, cache_read_input_tokens: 4, output_tokens: 0 } },
    });
    expect(end).toMatchObject({ usage: { input_tokens: 8, cache_read_input_tokens: 4, output_tokens: 7 } });
  });

  const byContext = 'model_context_window_exceeded';
  test.each<[ChatEnd, string | undefined, string, string | null]>([
    [{}, undefined, 'end_turn', null],
    [{ stopText: 'END' }, undefined, 'stop_sequence', 'END'],
    [{ finishReason: 'length' }, undefined, 'max_tokens', null],
    [{ finishReason: 'length' }, byContext, byContext, null],
    [{ finishReason: 'stop' }, byContext, 'end_turn', null],
    [{ finishReason: 'tool_calls', stopText: 'END' }, undefined, 'tool_use', null],
  ])('%j with %j stops because of %s', (end, detail, stop_reason, stop_sequence) => {
    const events = chatEnd(end).map((event) =>
      event.type === 'finish' && detail !== undefined ? { ...event, detail } : event,
    );
    expect(wholeOf(events)).toMatchObject({ content: [], stop_reason, stop_sequence });
    expect(written(events).at(-2)).toMatchObject({ delta: { stop_reason, stop_sequence } });
  });

  test('omitted thinking has no text and the same signature as shown thinking', () => {
    const answer = chatEvents(mixed.slice(0, 2));
    const signatures = [omitted, {}].map((body) => {
      const [block] = wholeOf(answer, body).content;
      if (block?.type !== 'thinking') throw new Error('no thinking');
      expect(block.thinking).toBe(body === omitted ? '' : 'Let me see.');
      const events = written(answer, body);
      expect(JSON.stringify(events).includes('Let me')).toBe(body !== omitted);
      expect(JSON.stringify(events)).toContain(block.signature);
      return block.signature;
    });
    expect(signatures[0]).toBe(signatures[1]);
  });

  test('a truncated tool input is empty', () => {
    const cut: Part = { type: 'call', name: 'weather', pieces: ['{"city":"Os'] };
    expect(wholeOf(chatEvents([cut], { finishReason: 'length' }))).toMatchObject({
      content: [{ type: 'tool_use', input: {} }],
      stop_reason: 'max_tokens',
    });
  });

  test('arguments without a call are an internal error', () => {
    const stray: AnswerEvent = { choice: 0, type: 'tool_arguments', index: 0, text: '{}' };
    expect(() => written([stray])).toThrow('without a preceding call');
  });

  test('are accumulated by the official client to the whole message, for any parts in any order', async () => {
    await fc.assert(
      fc.asyncProperty(anyParts, async (parts) => {
        const answer = [...evaluated, ...chatEvents(parts)];
        const lines = written(answer).map((event) => `${JSON.stringify(event)}\n`);
        const stream = MessageStream.fromReadableStream(new Blob(lines).stream() as never);
        const message = await stream.finalMessage();
        const whole = wholeOf(answer);
        expect(JSON.parse(JSON.stringify(message))).toMatchObject(
          JSON.parse(JSON.stringify({ ...whole, id: message.id })) as object,
        );
        const texts = whole.content.map((block) => (block.type === 'text' ? block.text : ''));
        expect(texts.join('')).toBe(
          parts
            .filter(({ type }) => type === 'content')
            .map(textOf)
            .join(''),
        );
      }),
      { numRuns: 100 },
    );
  });
});
