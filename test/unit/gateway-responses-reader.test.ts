import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { openaiResponses } from '../../src/wires/responses/upstream.ts';
import { frame, payloadsOf } from '../support/gateway/frames.ts';
import { aboutOf, merged, receipt } from '../support/gateway-responses.ts';
import { describeShared } from '../support/shared.ts';

type Json = Record<string, unknown>;

const read = (...events: (Json | string)[]): AnswerEvent[] => {
  const reader = openaiResponses.reader();
  const all = events.flatMap((event) =>
    reader.push(frame(event, typeof event === 'string' ? undefined : (event['type'] as string | undefined))),
  );
  return [...all, ...reader.end()];
};
const completed = (more: Json = {}) => ({
  type: 'response.completed',
  response: {
    status: 'completed',
    output: [],
    usage: { input_tokens: 5, input_tokens_details: { cached_tokens: 2 }, output_tokens: 3 },
    ...more,
  },
});
const usage: AnswerEvent = {
  type: 'usage',
  usage: { fresh: 3, cacheRead: 2, cacheWrite: 0, cacheWrite1h: 0, output: 3 },
};
const stop: AnswerEvent = { type: 'finish', reason: 'stop' };
const text = (delta: string, place: Json = { output_index: 0, content_index: 0 }) => ({
  type: 'response.output_text.delta',
  delta,
  ...place,
});

describe('a stream of responses, read', () => {
  test('yields the content of its deltas, and the rest of the last event', () => {
    const message = { type: 'message', content: [{ type: 'output_text', text: 'ab' }] };
    const call = { type: 'function_call', call_id: 'c', name: 'n', arguments: '{}' };
    expect(
      read(
        { type: 'response.created', response: { id: 'resp_1' } },
        { type: 'response.output_item.added', output_index: 0, item: { ...message, content: [] } },
        text('a'),
        text('b'),
        { type: 'response.unknown.event', delta: 'x' },
        completed({ output: [message, call] }),
        '[DONE]',
      ),
    ).toEqual([
      { type: 'start', id: 'resp_1' },
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
      { type: 'tool_call', index: 0, id: 'c', name: 'n' },
      { type: 'tool_arguments', index: 0, text: '{}' },
      usage,
      { type: 'finish', reason: 'tool_calls' },
    ]);
  });

  test('parallel calls are numbered separately from other items', () => {
    const added = (index: number, name: string) => ({
      type: 'response.output_item.added',
      output_index: index,
      item: { type: 'function_call', call_id: name, name, arguments: '' },
    });
    const delta = (index: number, content: string) => ({
      type: 'response.function_call_arguments.delta',
      output_index: index,
      delta: content,
    });
    const done = (index: number, name: string, content: string) => ({
      type: 'response.output_item.done',
      output_index: index,
      item: { type: 'function_call', call_id: name, name, arguments: content },
    });
    expect(
      read(
        added(1, 'x'),
        added(3, 'y'),
        delta(3, '{'),
        delta(1, '['),
        done(1, 'x', '[]'),
        done(3, 'y', '{}'),
      ).slice(0, -1),
    ).toEqual([
      { type: 'tool_call', index: 0, id: 'x', name: 'x' },
      { type: 'tool_call', index: 1, id: 'y', name: 'y' },
      { type: 'tool_arguments', index: 1, text: '{' },
      { type: 'tool_arguments', index: 0, text: '[' },
    ]);
  });

  test('reasoning summaries are separated; the encrypted content comes with the complete item', () => {
    const delta = (index: number, content: string) => ({
      type: 'response.reasoning_summary_text.delta',
      output_index: 0,
      summary_index: index,
      delta: content,
    });
    const item = {
      type: 'reasoning',
      id: 'rs_1',
      summary: [{ type: 'summary_text', text: 'abc' }],
      encrypted_content: 'E',
    };
    const added = {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...item, summary: [], encrypted_content: 'D' },
    };
    const done = { type: 'response.output_item.done', output_index: 0, item };
    expect(
      merged(read(added, delta(0, 'a'), delta(0, 'b'), delta(1, 'c'), done, completed({ output: [item] }))),
    ).toEqual([
      { type: 'reasoning', text: 'ab\n\nc' },
      { type: 'encrypted_reasoning', data: 'openai:E', id: 'rs_1' },
      usage,
      stop,
    ]);
  });

  test.each(['response.reasoning_text.delta', 'response.reasoning.delta'])(
    '%s is reasoning, reported once',
    (type) => {
      const summary = {
        type: 'response.reasoning_summary_text.delta',
        output_index: 0,
        summary_index: 0,
        delta: 'short',
      };
      const item = {
        type: 'reasoning',
        id: 'rs_1',
        summary: [],
        content: [{ type: 'reasoning_text', text: 'long' }],
      };
      const added = { type: 'response.output_item.added', output_index: 0, item };
      expect(
        read(
          added,
          { type, output_index: 0, content_index: 0, delta: 'long' },
          summary,
          completed({ output: [item] }),
        ),
      ).toEqual([{ type: 'reasoning', text: 'long' }, usage, stop]);
    },
  );

  test('refusals, log probabilities, and an answer that is cut', () => {
    const token = { token: 'a', logprob: -1, top_logprobs: [{ token: 'a', logprob: -1 }] };
    expect(
      read(
        { ...text('a'), logprobs: [token] },
        { type: 'response.refusal.delta', output_index: 0, content_index: 1, delta: 'No.' },
        {
          ...completed({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }),
          type: 'response.incomplete',
        },
      ),
    ).toEqual([
      {
        type: 'text',
        text: 'a',
        logprobs: [
          { token: 'a', logprob: -1, bytes: null, top_logprobs: [{ token: 'a', logprob: -1, bytes: null }] },
        ],
      },
      { type: 'refusal', text: 'No.' },
      usage,
      { type: 'finish', reason: 'length', detail: 'max_output_tokens' },
    ]);
    const filtered = {
      ...completed({ incomplete_details: { reason: 'content_filter' } }),
      type: 'response.incomplete',
    };
    delete (filtered.response as Json)['status'];
    expect(read(filtered).at(-1)).toMatchObject({ reason: 'content_filter' });
  });

  const words = { type: 'server_error', code: 'rate_limit_exceeded', message: 'Slow down.', param: null };
  test.each([
    ['nested', [{ type: 'error', sequence_number: 2, error: words }]],
    ['flat', [{ ...words, type: 'error' }]],
    ['as on the chat wire', [{ error: words }]],
    ['in the response only', [{ type: 'response.failed', response: { status: 'failed', error: words } }]],
  ])('an error %s is a failure', (_, events) => {
    const [failure, ...more] = read(...events, text('nothing after'));
    expect(failure).toMatchObject({
      type: 'failure',
      isRetryable: true,
      error: { status: 429, code: 'rate_limit_exceeded' },
    });
    expect((failure as { error: Error }).error.message).toContain('Slow down.');
    expect(more).toEqual([]);
  });

  test('usage before a failure is reported once, before the failure', () => {
    const failed = {
      ...completed({ status: 'failed', error: { code: 'server_error', message: 'x' } }),
      type: 'response.failed',
    };
    const events = read({ type: 'error', error: words }, failed, failed);
    expect(events).toMatchObject([usage, { type: 'failure', error: { status: 429 } }]);
  });

  test('a secret in an error is redacted', () => {
    const secret = `sk-proj-${'a1B2'.repeat(10)}`;
    const events = read({ type: 'error', error: { ...words, message: `Bad key ${secret}.` } });
    const { status, text: shown } = {
      status: 500,
      text: JSON.stringify({ error: { message: `No ${secret}` } }),
    };
    const failure = openaiResponses.failure(status, shown, {});
    expect(
      JSON.stringify([events, failure, (events[0] as { error: Error }).error.message, failure.error.message]),
    ).not.toContain('a1B2a1B2');
  });

  test.each([
    ['ends early', [text('a')]],
    ['is empty', []],
    ['holds no JSON', [text('a'), '{"type":']],
    ['holds no object', ['7']],
  ])('a stream that %s failed', (_, events) => {
    expect(read(...events).at(-1)).toMatchObject({
      type: 'failure',
      isRetryable: true,
      error: { status: 502 },
    });
  });

  test('events without output indices are read', () => {
    const item = { type: 'function_call', call_id: 'c', name: 'n', arguments: '{}' };
    expect(
      read(
        { type: 'response.output_item.added', item: { ...item, arguments: '' } },
        { type: 'response.function_call_arguments.delta', delta: '{}' },
        { type: 'response.output_item.done', item },
        completed({ output: [item] }),
      ),
    ).toEqual([
      { type: 'tool_call', index: 0, id: 'c', name: 'n' },
      { type: 'tool_arguments', index: 0, text: '{}' },
      usage,
      { type: 'finish', reason: 'tool_calls' },
    ]);
  });
});

describe('whatever a server sends', () => {
  const message = (content: string) => ({
    type: 'message',
    content: [{ type: 'output_text', text: content }],
  });
  const call = (id: string) => ({ type: 'function_call', call_id: id, name: id, arguments: '{}' });

  test('nothing is read twice where the stream is numbered differently from the complete answer', () => {
    const events = read(
      { type: 'response.output_item.added', output_index: 1, item: { ...message(''), content: [] } },
      text('a', { output_index: 1, content_index: 0 }),
      { type: 'response.output_item.added', output_index: 2, item: { ...call('x'), arguments: '' } },
      { type: 'response.function_call_arguments.delta', output_index: 2, delta: '{}' },
      completed({ output: [message('a'), call('x')] }),
    );
    expect(events.slice(0, -2)).toEqual([
      { type: 'text', text: 'a' },
      { type: 'tool_call', index: 0, id: 'x', name: 'x' },
      { type: 'tool_arguments', index: 0, text: '{}' },
    ]);
  });

  test('and nothing is lost that only the complete answer contains', () => {
    const events = read(text('a'), completed({ output: [call('x'), message('a'), call('y')] }));
    expect(merged(events).slice(0, -2)).toEqual([
      { type: 'text', text: 'a' },
      { type: 'tool_call', index: 0, id: 'x', name: 'x' },
      { type: 'tool_arguments', index: 0, text: '{}' },
      { type: 'tool_call', index: 1, id: 'y', name: 'y' },
      { type: 'tool_arguments', index: 1, text: '{}' },
    ]);
  });

  test('its reader never throws, and ends once', () => {
    const type = fc.constantFrom(
      ...'created output_item.added output_item.done output_text.delta refusal.delta reasoning_text.delta'.split(
        ' ',
      ),
      ...'reasoning_summary_text.delta function_call_arguments.delta completed incomplete failed x'.split(
        ' ',
      ),
    );
    const item = fc.oneof(
      fc.constantFrom<Json[]>(
        message('a'),
        call('x'),
        { type: 'reasoning', summary: [{ text: 'r' }] },
        { type: 'message' },
      ),
      fc.jsonValue({ maxDepth: 2 }),
    );
    const place = fc.oneof(fc.nat({ max: 3 }), fc.jsonValue({ maxDepth: 1 }));
    const event = fc.record(
      {
        type: fc.oneof(
          type.map((name) => `response.${name}`),
          fc.constant('error'),
          fc.string(),
        ),
        output_index: place,
        content_index: place,
        summary_index: place,
        delta: fc.oneof(fc.string(), fc.jsonValue({ maxDepth: 1 })),
        item,
        error: fc.jsonValue({ maxDepth: 2 }),
        response: fc.oneof(
          fc.record(
            {
              output: fc.array(item),
              usage: fc.jsonValue({ maxDepth: 2 }),
              error: fc.jsonValue({ maxDepth: 2 }),
            },
            { requiredKeys: [] },
          ),
          fc.jsonValue({ maxDepth: 1 }),
        ),
      },
      { requiredKeys: ['type'] },
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), (events) => {
        const reader = openaiResponses.reader();
        const writer = responsesWire.writer(aboutOf());
        const all = [...events.flatMap((each) => reader.push(frame(each))), ...reader.end()];
        const ends = all.filter(({ type: kind }) => kind === 'finish' || kind === 'failure');
        expect(ends).toHaveLength(1);
        const calls = all.flatMap((each) => (each.type === 'tool_call' ? [each.index] : []));
        expect(calls).toEqual(calls.map((_, index) => index));
        for (const each of payloadsOf(all.map((one) => writer.write(one)).join('') + writer.end(receipt)))
          expect(each).toMatchObject({ type: expect.any(String) });
      }),
      { numRuns: 1000 },
    );
  });
});

describe('a whole response, read', () => {
  test.each(['', 'null', '[]', '{}', '<html>', '{"object":"chat.completion"}'])('%j is none', (body) => {
    expect(() => openaiResponses.answer(body)).toThrow(UpstreamFailure);
  });

  test('one that failed says so', () => {
    const body = {
      ...completed().response,
      status: 'failed',
      error: { code: 'server_error', message: 'Oh.' },
    };
    expect(openaiResponses.answer(JSON.stringify(body))).toMatchObject([
      usage,
      { type: 'failure', isRetryable: true },
    ]);
    expect(openaiResponses.answer(JSON.stringify({ output: [], status: 'cancelled' }))).toMatchObject([
      { type: 'failure' },
    ]);
  });
});

const cassettes = 'data/cassettes/openai-responses';
describeShared('recorded traffic of responses', [cassettes], (folder) => {
  const files = readdirSync(folder);
  const recorded = (name: string) => readFileSync(`${folder}/${name}`, 'utf8');
  const wanted = (response: Json): AnswerEvent => {
    const {
      input_tokens: input,
      input_tokens_details: details,
      ...out
    } = response['usage'] as {
      input_tokens: number;
      input_tokens_details: { cached_tokens: number };
      output_tokens: number;
      output_tokens_details: { reasoning_tokens: number };
    };
    return {
      type: 'usage',
      usage: {
        fresh: input - details.cached_tokens,
        cacheRead: details.cached_tokens,
        cacheWrite: 0,
        cacheWrite1h: 0,
        output: out.output_tokens,
        reasoning: out.output_tokens_details.reasoning_tokens,
      },
    };
  };
  const textIn = (events: readonly AnswerEvent[]) =>
    events.flatMap((event) => (event.type === 'text' ? [event.text] : [])).join('');

  test.each(files.filter((name) => name.endsWith('.json') && !name.includes('error')))('%s', (name) => {
    const body = JSON.parse(recorded(name)) as Json;
    const events = openaiResponses.answer(recorded(name));
    expect(events.filter(({ type }) => type === 'usage')).toEqual([wanted(body)]);
    const items = body['output'] as Json[];
    const calls = items.filter(({ type }) => type === 'function_call').length;
    expect(events.filter(({ type }) => type === 'tool_call')).toHaveLength(calls);
    expect(events.at(-1)).toEqual({ type: 'finish', reason: calls > 0 ? 'tool_calls' : 'stop' });
    const expectedText = items
      .filter(({ type }) => type === 'message')
      .flatMap(({ content }) => (content as Json[]).map((part) => part['text']))
      .join('');
    expect(textIn(events)).toBe(expectedText);
  });

  test.each(files.filter((name) => name.endsWith('.chunks.txt') && !name.startsWith('parallel')))(
    '%s',
    (name) => {
      const lines = recorded(name)
        .split('\n')
        .filter((line) => line.trim() !== '');
      // One of them holds the four streams of a loop.
      const streams = lines
        .map((line) => JSON.parse(line) as Json)
        .reduce<Json[][]>((all, event) => {
          if (event['type'] === 'response.created') all.push([]);
          all.at(-1)?.push(event);
          return all;
        }, []);
      for (const events of streams) {
        const terminal = events.at(-1)?.['response'] as Json;
        const named = read(...events);
        expect(named.filter(({ type }) => type === 'usage')).toEqual([wanted(terminal)]);
        expect(named.at(-1)).toMatchObject({ type: 'finish' });
        // Without names, and without any of the pieces, it is the same answer.
        const nameless = openaiResponses.reader();
        const unnamed = events.flatMap((event) => nameless.push(frame(event)));
        expect(unnamed).toEqual(named);
        const whole = read(events.at(-1) ?? {});
        // OpenAI encrypts the same reasoning again for each event.
        const contents = (list: readonly AnswerEvent[]) =>
          merged(list)
            .filter(({ type }) => type !== 'start')
            .map((event) => (event.type === 'encrypted_reasoning' ? { ...event, data: '' } : event));
        if ((terminal['output'] as Json[]).length > 0 && !name.startsWith('github'))
          expect(contents(named)).toEqual(contents(whole));
      }
    },
  );

  test('a stream whose events are broken failed', () => {
    const lines = recorded('parallel-tool-call-wrapper.1.chunks.txt').trim().split('\n');
    expect(read(...lines)).toMatchObject([{ type: 'failure' }]);
  });

  test('a refusal of the provider keeps its message', () => {
    const { error, isRetryable, isUnhealthy } = openaiResponses.failure(
      400,
      recorded('reasoning-model-temperature-error.json'),
      {},
    );
    expect(error).toMatchObject({ status: 400, type: 'invalid_request_error', param: 'temperature' });
    expect(error.message).toBe("Unsupported parameter: 'temperature' is not supported with this model.");
    expect([isRetryable, isUnhealthy]).toEqual([false, false]);
  });
});
