import fc from 'fast-check';
import { ResponseStream } from 'openai/lib/responses/ResponseStream';
import { describe, expect, test } from 'vitest';
import { HttpError } from '../../src/http/error.ts';
import { responseEvent, type ResponseEvent } from '../../src/wires/responses/answer-schema.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { anyParts, chatEvents, type Part, textOf } from '../support/chat-events.ts';
import { dataOf, residentAbout } from '../support/resident-about.ts';

const newWriter = () => responsesWire.writer(residentAbout({ input: 'hi' }));
const begun = (events: readonly AnswerEvent[], writer: ReturnType<typeof newWriter>) =>
  dataOf<ResponseEvent>(events.map((event) => writer.write(event)).join(''));
/** The events of a complete answer. */
const written = (events: readonly AnswerEvent[]) => {
  const writer = newWriter();
  return [...begun(events, writer), ...dataOf<ResponseEvent>(writer.end())];
};
const mixed: Part[] = [
  { type: 'reasoning', pieces: ['Let me', ' see.'] },
  { type: 'content', pieces: ['I will ', 'look.'] },
  { type: 'call', name: 'weather', pieces: ['{"city":', '"Oslo"}'] },
  { type: 'call', name: 'time', pieces: [] },
];
const responseOf = (event: ResponseEvent | undefined) => {
  if (!event || !('response' in event)) throw new Error('no response');
  return event.response;
};

describe('the events of a response', () => {
  test('a truncated call is incomplete, whatever ended the answer', () => {
    for (const [pieces, status] of [
      [['{"a"', ': 1}'], 'completed'],
      [['{"a"', ': '], 'incomplete'],
      [[], 'incomplete'],
    ] as const) {
      const events = written(
        chatEvents([{ type: 'call', name: 'f', pieces: [...pieces] }], { finishReason: 'stop' }),
      );
      expect(responseOf(events.at(-1))).toMatchObject({ status: 'completed', output: [{ status }] });
      const done = events.find(({ type }) => type === 'response.output_item.done');
      expect(done).toMatchObject({ item: { type: 'function_call', status } });
    }
  });

  test('come in the order of the wire, numbered from 0, each in its format', () => {
    const events = written(chatEvents(mixed));
    expect(events.map(({ type }) => type.replace('response.', ''))).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'reasoning_text.delta',
      'reasoning_text.delta',
      'reasoning_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'output_item.added',
      'function_call_arguments.done',
      'output_item.done',
      'completed',
    ]);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()]);
    for (const event of events) expect(responseEvent.parse(event)).toEqual(event);
  });

  test('each item begins empty and in progress, and ends complete', () => {
    const events = written(chatEvents(mixed));
    const added = events.flatMap((event) => (event.type === 'response.output_item.added' ? [event] : []));
    const done = events.flatMap((event) => (event.type === 'response.output_item.done' ? [event] : []));
    expect(
      added.map(({ item, output_index }) => [output_index, 'status' in item ? item.status : undefined]),
    ).toEqual([
      [0, 'in_progress'],
      [1, 'in_progress'],
      [2, 'in_progress'],
      [3, 'in_progress'],
    ]);
    expect(
      added.map(({ item }) =>
        item.type === 'function_call' ? item.arguments : 'content' in item ? item.content : undefined,
      ),
    ).toEqual([[], [], '', '']);
    expect(done.map(({ item }) => item.id)).toEqual(added.map(({ item }) => item.id));
    expect(done.map(({ item }) => item)).toEqual([
      {
        id: expect.stringMatching(/^rs_\w{32}$/),
        type: 'reasoning',
        status: 'completed',
        summary: [],
        content: [{ type: 'reasoning_text', text: 'Let me see.' }],
        encrypted_content: null,
      },
      {
        id: expect.stringMatching(/^msg_\w{32}$/),
        type: 'message',
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'I will look.', annotations: [], logprobs: [] }],
      },
      {
        id: expect.stringMatching(/^fc_\w{32}$/),
        type: 'function_call',
        status: 'completed',
        call_id: 'call_0x',
        name: 'weather',
        arguments: '{"city":"Oslo"}',
      },
      expect.objectContaining({ call_id: 'call_1x', name: 'time', arguments: '' }),
    ]);
    const response = responseOf(events.at(-1));
    expect(response.output).toEqual(done.map(({ item }) => item));
    expect(response.usage).toEqual({
      input_tokens: 12,
      input_tokens_details: { cached_tokens: 4, cache_write_tokens: 0 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 3 },
      total_tokens: 19,
    });
  });

  test('snapshots before the end have no output, usage or completion time', () => {
    for (const event of written(chatEvents(mixed)).slice(0, 2)) {
      expect(responseOf(event)).toMatchObject({
        status: 'in_progress',
        output: [],
        usage: null,
        completed_at: null,
      });
    }
  });

  test('an answer that reaches its limit is incomplete, and so is its last item', () => {
    const events = written(chatEvents(mixed.slice(0, 3), { finishReason: 'length' }));
    expect(events.at(-1)?.type).toBe('response.incomplete');
    expect(responseOf(events.at(-1))).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      completed_at: null,
      output: [{ status: 'completed' }, { status: 'completed' }, { status: 'incomplete' }],
    });
  });

  test('an empty answer has an empty message', () => {
    const response = responseOf(written(chatEvents([])).at(-1));
    expect(response.output).toMatchObject([{ type: 'message', content: [{ text: '' }] }]);
  });

  test('log probabilities are on the deltas and, all of them, on the complete part', () => {
    const entries = [-1, -2].map((logprob) => [{ token: 't', logprob, bytes: [116], top_logprobs: [] }]);
    const events = written([
      { choice: 0, type: 'text', text: 'a', logprobs: entries[0] ?? [] },
      { choice: 0, type: 'text', text: 'b', logprobs: entries[1] ?? [] },
      ...chatEvents([]),
    ]);
    const told = events.flatMap((event) =>
      event.type === 'response.output_text.delta' || event.type === 'response.output_text.done'
        ? [event.logprobs.map(({ logprob }) => logprob)]
        : [],
    );
    expect(told).toEqual([[-1], [-2], [-1, -2]]);
    const [item] = responseOf(events.at(-1)).output;
    expect(item).toMatchObject({ content: [{ logprobs: [{ logprob: -1 }, { logprob: -2 }] }] });
  });

  test('a failure is sent twice: as an error, and as a failed response with the partial output', () => {
    const writer = newWriter();
    const before = begun(chatEvents(mixed.slice(0, 2)).slice(0, -2), writer);
    const after = dataOf<ResponseEvent>(writer.fail(new HttpError(503, 'device_lost', 'the GPU was lost')));
    const told = { code: 'device_lost', message: 'the GPU was lost', param: null };
    // Both forms of an error event: OpenAI documents the flat one and sends the nested one.
    expect(after).toEqual([
      { type: 'error', sequence_number: before.length, ...told, error: { type: 'server_error', ...told } },
      { type: 'response.failed', sequence_number: before.length + 1, response: expect.anything() },
    ]);
    expect(responseOf(after[1])).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: 'the GPU was lost' },
      output: [{ status: 'completed' }, { status: 'incomplete', content: [{ text: 'I will look.' }] }],
      usage: null,
    });
    for (const event of after) expect(responseEvent.parse(event)).toEqual(event);
  });

  test('arguments without a call are an internal error', () => {
    const stray: AnswerEvent = { choice: 0, type: 'tool_arguments', index: 0, text: '{}' };
    expect(() => written([stray])).toThrow('without a preceding call');
  });

  test('are accumulated by the official client to the last snapshot, for any parts in any order', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyParts,
        fc.constantFrom('stop' as const, 'length' as const),
        async (parts, reason) => {
          const events = written(chatEvents(parts, { finishReason: reason }));
          const lines = events.map((event) => `${JSON.stringify(event)}\n`);
          const stream = ResponseStream.fromReadableStream(new Blob(lines).stream() as never);
          const deltas: string[] = [];
          stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
          stream.on('response.function_call_arguments.delta', ({ delta }) => deltas.push(delta));
          const whole = await stream.finalResponse();
          const last = responseOf(events.at(-1));
          // The client adds members of its own.
          expect(whole.output).toMatchObject(last.output);
          expect(whole.usage).toEqual(last.usage);
          const shown = parts.filter(({ type }) => type !== 'reasoning');
          expect(deltas.join('')).toBe(shown.map(textOf).join(''));
          expect(whole.output_text).toBe(
            parts
              .filter(({ type }) => type === 'content')
              .map(textOf)
              .join(''),
          );
        },
      ),
      { numRuns: 100 },
    );
  });
});
