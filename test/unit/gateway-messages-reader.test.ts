import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Usage } from '../../src/wires/core/types.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { messagesPassthrough } from '../../src/wires/messages/passthrough.ts';
import { anthropicMessages } from '../../src/wires/messages/upstream.ts';
import type { AnswerMetadata, SseFrame } from '../../src/wires/core/wire.ts';
import { recordedBody, recordedFrames } from '../support/gateway/cassettes.ts';
import { frame } from '../support/gateway/frames.ts';
import { describeShared } from '../support/shared.ts';

const folder = 'data/cassettes/anthropic';
const streams = [
  'anthropic-advisor-20250301.1',
  'anthropic-advisor-stop-reasons',
  'anthropic-clear-thinking.1',
  'anthropic-code-execution-20250825.1',
  'anthropic-code-execution-20250825.2',
  'anthropic-code-execution-20250825.pptx-skill',
  'anthropic-code-execution-file-upload.1',
  'anthropic-compaction.1',
  'anthropic-json-other-tool.1',
  'anthropic-json-tool.1',
  'anthropic-json-tool.2',
  'anthropic-programmatic-tool-calling.1',
  'anthropic-tool-no-args',
  'anthropic-tool-search-deferred-bm25',
  'anthropic-tool-search-regex.1',
  'anthropic-web-fetch-tool-20260209.1',
  'duplicate-message-start',
];
const bodies = [
  'anthropic-advisor-stop-reasons',
  'anthropic-clear-thinking.1',
  'anthropic-code-execution-20250825.1',
  'anthropic-code-execution-20250825.2',
  'anthropic-code-execution-20250825.pptx-skill',
  'anthropic-code-execution-file-upload.1',
  'anthropic-compaction.1',
  'anthropic-json-other-tool.1',
  'anthropic-json-tool.1',
  'anthropic-memory-20250818.1',
  'anthropic-programmatic-tool-calling.1',
  'anthropic-refusal-no-details',
  'anthropic-tool-no-args',
  'anthropic-tool-search-deferred-bm25.2',
  'anthropic-tool-search-regex.1',
  'anthropic-web-fetch-tool-20260209.1',
];
const about = { requestId: 'req_1', model: 'the-model', created: 0 } as AnswerMetadata;

interface RawBlock {
  readonly type: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly signature?: string;
  readonly name?: string;
  readonly input?: unknown;
}

/** The expected events, computed from a message in the simplest way. */
function expectedOf(content: readonly RawBlock[]) {
  return {
    text: content.map(({ type, text }) => (type === 'text' ? text : '')).join(''),
    thoughts: content.map(({ type, thinking }) => (type === 'thinking' ? thinking : '')).join(''),
    signatures: content.flatMap(({ type, signature }) =>
      type === 'thinking' && signature ? [`anthropic:${signature}`] : [],
    ),
    calls: content.flatMap(({ type, name, input }) => (type === 'tool_use' ? [{ name, input }] : [])),
  };
}

function foundIn(events: readonly AnswerEvent[]) {
  const calls: { name: string; text: string }[] = [];
  const found = { text: '', thoughts: '', signatures: [] as string[] };
  for (const event of events) {
    if (event.type === 'text') found.text += event.text;
    if (event.type === 'reasoning') found.thoughts += event.text;
    if (event.type === 'reasoning_signature') found.signatures.push(event.signature);
    if (event.type === 'tool_call') {
      expect(event.index).toBe(calls.length);
      calls.push({ name: event.name, text: '' });
    }
    const call = event.type === 'tool_arguments' ? calls[event.index] : undefined;
    if (event.type === 'tool_arguments' && call) call.text += event.text;
  }
  return { ...found, calls: calls.map(({ name, text }) => ({ name, input: JSON.parse(text) as unknown })) };
}

/** A recorded file may hold several answers, one after the other. */
function answersOf(frames: readonly SseFrame[]): SseFrame[][] {
  const answers: SseFrame[][] = [];
  for (const one of frames) {
    if (answers.length === 0 || answers.at(-1)?.at(-1)?.event === 'message_stop') answers.push([]);
    answers.at(-1)?.push(one);
  }
  return answers;
}

/** The message of a recorded stream, merged in the simplest way. */
function assembled(frames: readonly SseFrame[]) {
  const content: (RawBlock & { partial?: string })[] = [];
  let usage: Record<string, unknown> = {};
  for (const { data } of frames) {
    const event = JSON.parse(data);
    if (event.type === 'message_start') {
      usage = { ...usage, ...event.message.usage };
      content.push(...event.message.content);
    }
    if (event.type === 'message_delta') usage = { ...usage, ...event.usage };
    if (event.type === 'content_block_start') content[event.index] = { ...event.content_block };
    const block = content[event.index] as unknown as Record<string, string>;
    for (const member of ['text', 'thinking', 'signature'])
      if (event.delta?.[member] !== undefined) block[member] = (block[member] ?? '') + event.delta[member];
    if (event.delta?.partial_json) block.partial = (block.partial ?? '') + event.delta.partial_json;
  }
  return {
    usage,
    content: content.map((block) =>
      block.partial === undefined || block.type !== 'tool_use'
        ? block
        : { ...block, input: JSON.parse(block.partial) as unknown },
    ),
  };
}

type RawUsage = Record<string, number> & { iterations?: (Record<string, number> & { type: string })[] };
/** All that is billed: summaries stand in `iterations` only, and an advisor's turns there have no price here. */
function billed(usage: RawUsage): Pick<Usage, 'fresh' | 'output'> {
  const more = (usage.iterations ?? []).filter(({ type }) => (type as unknown) === 'compaction');
  const sum = (name: string) => more.reduce((all, one) => all + (one[name] ?? 0), usage[name] ?? 0);
  return { fresh: sum('input_tokens'), output: sum('output_tokens') };
}

const lastUsage = (events: readonly AnswerEvent[]): Usage | undefined =>
  events.findLast((event) => event.type === 'usage')?.usage;

describeShared("anthropic's recorded streams", [folder], () => {
  it.each(streams)('%s: content, calls, end and usage', (name) => {
    for (const frames of answersOf(recordedFrames(`anthropic/${name}`))) {
      const reader = anthropicMessages.reader();
      const events = [...frames.flatMap((one) => reader.push(one)), ...reader.end()];
      const { content, usage } = assembled(frames);
      expect(foundIn(events)).toEqual(expectedOf(content));
      expect(lastUsage(events)).toMatchObject(billed(usage as RawUsage));
      expect(events.filter(({ type }) => type === 'start')).toHaveLength(1);
      expect(events[0]?.type).toBe('start');
      expect(events.filter(({ type }) => type === 'finish')).toHaveLength(1);
      expect(events.filter(({ type }) => type === 'failure')).toEqual([]);
    }
  });

  it.each(streams)('%s: passes byte by byte on the same wire, and is metered alike', (name) => {
    for (const frames of answersOf(recordedFrames(`anthropic/${name}`))) {
      const stream = messagesPassthrough.stream(about);
      const reader = anthropicMessages.reader();
      const passed = frames.map((one) => stream.push(one));
      const wanted = frames.filter(
        ({ event }, n) => event !== 'message_start' || frames[n - 1]?.event !== 'message_start',
      );
      expect(passed.map(({ text }) => text).join('')).toBe(wanted.map(({ raw }) => raw).join(''));
      expect(passed.flatMap(({ events }) => events)).toEqual(frames.flatMap((one) => reader.push(one)));
      expect(stream.finish()).toEqual({ text: '', events: [] });
    }
  });

  it.each(streams)('%s: cut before it says why it stopped is a failure, and never a second end', (name) => {
    const [frames = []] = answersOf(recordedFrames(`anthropic/${name}`));
    const stop = frames.findIndex(({ data }) => /"stop_reason":"/.test(data));
    for (const length of [0, 1, Math.floor(stop / 2), stop]) {
      const reader = anthropicMessages.reader();
      const events = [...frames.slice(0, length).flatMap((one) => reader.push(one)), ...reader.end()];
      expect(events.at(-1)).toMatchObject({ type: 'failure', isRetryable: true });
      expect(reader.end()).toEqual([]);
    }
  });

  it.each(streams)('%s: cut before the event that says only that it stopped is whole', (name) => {
    const [frames = []] = answersOf(recordedFrames(`anthropic/${name}`));
    const stop = frames.findIndex(({ event }) => event === 'message_stop');
    const reader = anthropicMessages.reader();
    const events = [...frames.slice(0, stop).flatMap((one) => reader.push(one)), ...reader.end()];
    expect(events.map(({ type }) => type)).toContain('finish');
    expect(events.map(({ type }) => type)).not.toContain('failure');
  });
});

describeShared("anthropic's recorded answers", [folder], () => {
  it.each(bodies)('%s', (name) => {
    const text = recordedBody(`anthropic/${name}`);
    const message = JSON.parse(text);
    const events = anthropicMessages.answer(text);
    expect(foundIn(events)).toEqual(expectedOf(message.content));
    expect(lastUsage(events)).toMatchObject(billed(message.usage));
    expect(events.filter(({ type }) => type === 'finish')).toHaveLength(1);
    expect(messagesPassthrough.answer(text, about)).toEqual({ text, events });
  });

  it('a refusal ends as one', () => {
    const events = anthropicMessages.answer(recordedBody('anthropic/anthropic-refusal-no-details'));
    expect(events.at(-1)).toEqual({ type: 'finish', reason: 'content_filter', detail: 'refusal' });
  });
});

describeShared('a stream of another wire', ['data/cassettes/openai-compatible-chat'], () => {
  it('is a failure, not an empty answer', () => {
    const reader = anthropicMessages.reader();
    const frames = recordedFrames('openai-compatible-chat/anthropic-fallback-tool-call');
    const events = [...frames.flatMap((one) => reader.push(one)), ...reader.end()];
    expect(events.map(({ type }) => type)).toEqual(['failure']);
  });
});

const start = (usage: unknown, more = {}) =>
  frame(
    { type: 'message_start', message: { id: 'msg_1', type: 'message', content: [], usage, ...more } },
    'message_start',
  );
const delta = (usage: unknown, stop: unknown = { stop_reason: 'end_turn', stop_sequence: null }) =>
  frame({ type: 'message_delta', delta: stop, usage }, 'message_delta');
const stop = frame({ type: 'message_stop' }, 'message_stop');
const read = (...frames: readonly SseFrame[]) => {
  const reader = anthropicMessages.reader();
  return [...frames.flatMap((one) => reader.push(one)), ...reader.end()];
};

describe('usage in a stream', () => {
  it.each<[string, unknown, unknown, Usage]>([
    [
      'is cumulative: the last report overwrites',
      { input_tokens: 10, cache_read_input_tokens: 5, cache_creation_input_tokens: 7, output_tokens: 1 },
      { input_tokens: 12, cache_read_input_tokens: 6, cache_creation_input_tokens: 8, output_tokens: 30 },
      { fresh: 12, cacheRead: 6, cacheWrite: 8, cacheWrite1h: 0, output: 30 },
    ],
    [
      'keeps what the last report leaves out or says null of',
      { input_tokens: 10, cache_read_input_tokens: 5, cache_creation_input_tokens: 7, output_tokens: 1 },
      { cache_read_input_tokens: null, output_tokens: 30 },
      { fresh: 10, cacheRead: 5, cacheWrite: 7, cacheWrite1h: 0, output: 30 },
    ],
    [
      'takes counts of the cache that come at the end only',
      { input_tokens: 10, output_tokens: 1 },
      { cache_read_input_tokens: 5, cache_creation_input_tokens: 7, output_tokens: 30 },
      { fresh: 10, cacheRead: 5, cacheWrite: 7, cacheWrite1h: 0, output: 30 },
    ],
    [
      'knows both lifetimes of a cache write, reported at the start only',
      {
        input_tokens: 10,
        cache_creation_input_tokens: 100,
        cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 70 },
        output_tokens: 1,
      },
      { cache_creation_input_tokens: 100, output_tokens: 30 },
      { fresh: 10, cacheRead: 0, cacheWrite: 30, cacheWrite1h: 70, output: 30 },
    ],
    [
      'knows writes by their lives alone',
      {
        input_tokens: 1,
        output_tokens: 1,
        cache_creation: { ephemeral_5m_input_tokens: 3, ephemeral_1h_input_tokens: 4 },
      },
      { output_tokens: 2, output_tokens_details: { thinking_tokens: 1 } },
      { fresh: 1, cacheRead: 0, cacheWrite: 3, cacheWrite1h: 4, output: 2, reasoning: 1 },
    ],
    [
      'counts no turns of an advisor, which is another model',
      { input_tokens: 60, output_tokens: 5 },
      {
        input_tokens: 60,
        output_tokens: 20,
        iterations: [
          { type: 'message', input_tokens: 60, output_tokens: 20 },
          { type: 'advisor_message', model: 'claude-opus-4-7', input_tokens: 2728, output_tokens: 3880 },
        ],
      },
      { fresh: 60, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, output: 20 },
    ],
    [
      'counts the summaries that stand beside it',
      { input_tokens: 60_385, output_tokens: 5 },
      {
        input_tokens: 612,
        output_tokens: 2819,
        iterations: [
          {
            type: 'compaction',
            input_tokens: 60_385,
            output_tokens: 522,
            cache_creation: { ephemeral_1h_input_tokens: 9 },
          },
          { type: 'message', input_tokens: 612, output_tokens: 2819 },
        ],
      },
      { fresh: 60_997, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 9, output: 3341 },
    ],
  ])('%s', (_title, first, last, usage) => {
    expect(lastUsage(read(start(first), delta(last), stop))).toEqual(usage);
  });
});

describe('odd reports of usage', () => {
  it('a second beginning counts too', () => {
    expect(
      lastUsage(read(start({ input_tokens: 3 }), start({ input_tokens: 4, output_tokens: 1 }))),
    ).toMatchObject({
      fresh: 4,
      output: 1,
    });
  });

  it('lives of writes that do not fit their sum are never less than nothing', () => {
    const first = { input_tokens: 1, output_tokens: 1, cache_creation: { ephemeral_1h_input_tokens: 70 } };
    const events = read(start(first), delta({ cache_creation_input_tokens: 50, output_tokens: 2 }), stop);
    expect(lastUsage(events)).toMatchObject({ cacheWrite: 0, cacheWrite1h: 50 });
  });

  it('a report without a count is ignored', () => {
    expect(lastUsage(read(start({}), delta({ service_tier: 'x' }), stop))).toBeUndefined();
  });
});

describe('ends', () => {
  it.each([
    ['end_turn', { reason: 'stop' }],
    ['max_tokens', { reason: 'length' }],
    ['tool_use', { reason: 'tool_calls' }],
    ['pause_turn', { reason: 'stop', detail: 'pause_turn' }],
    ['model_context_window_exceeded', { reason: 'length', detail: 'model_context_window_exceeded' }],
    ['never_heard_of', { reason: 'stop', detail: 'never_heard_of' }],
  ])('%s', (word, finish) => {
    const events = read(start({}), delta({}, { stop_reason: word, stop_sequence: null }), stop);
    expect(events.find(({ type }) => type === 'finish')).toEqual({ type: 'finish', ...finish });
  });

  it('stop_sequence names the text', () => {
    const events = read(start({}), delta({}, { stop_reason: 'stop_sequence', stop_sequence: 'END' }), stop);
    expect(events).toContainEqual({ type: 'finish', reason: 'stop', stopText: 'END' });
  });

  it('a refusal says why', () => {
    const why = { type: 'refusal', category: 'cyber', explanation: 'No exploits.' };
    const events = read(start({}), delta({}, { stop_reason: 'refusal', stop_details: why }), stop);
    expect(events).toContainEqual({ type: 'refusal', text: 'No exploits.' });
    expect(events).toContainEqual({ type: 'finish', reason: 'content_filter', detail: 'refusal' });
  });
});

describe('blocks', () => {
  const block = (index: number, content_block: unknown) =>
    frame({ type: 'content_block_start', index, content_block }, 'content_block_start');
  const part = (index: number, one: unknown) =>
    frame({ type: 'content_block_delta', index, delta: one }, 'content_block_delta');
  const done = (index: number) => frame({ type: 'content_block_stop', index }, 'content_block_stop');

  it('calls are numbered separately from texts and provider tools', () => {
    const events = read(
      start({}),
      block(0, { type: 'text', text: '' }),
      done(0),
      block(1, { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }),
      part(1, { type: 'input_json_delta', partial_json: '{"query":1}' }),
      done(1),
      block(2, { type: 'tool_use', id: 'a', name: 'f', input: {} }),
      part(2, { type: 'input_json_delta', partial_json: '' }),
      part(2, { type: 'input_json_delta', partial_json: '{"x":' }),
      part(2, { type: 'input_json_delta', partial_json: '1}' }),
      done(2),
      block(3, { type: 'text', text: 'and' }),
      done(3),
      block(4, { type: 'tool_use', id: 'b', name: 'g', input: {} }),
      done(4),
      block(5, { type: 'tool_use', id: 'c', name: 'h', input: { whole: 1 } }),
      done(5),
    );
    expect(events.slice(1, -1)).toEqual([
      { type: 'tool_call', index: 0, id: 'a', name: 'f' },
      { type: 'tool_arguments', index: 0, text: '{"x":' },
      { type: 'tool_arguments', index: 0, text: '1}' },
      { type: 'text', text: 'and' },
      { type: 'tool_call', index: 1, id: 'b', name: 'g' },
      { type: 'tool_arguments', index: 1, text: '{}' },
      { type: 'tool_call', index: 2, id: 'c', name: 'h' },
      { type: 'tool_arguments', index: 2, text: '{"whole":1}' },
    ]);
  });

  it('thinking, its signature, and redacted thinking', () => {
    const events = read(
      start({}),
      block(0, { type: 'thinking', thinking: '', signature: '' }),
      part(0, { type: 'thinking_delta', thinking: 'hm' }),
      part(0, { type: 'signature_delta', signature: 'sig' }),
      done(0),
      block(1, { type: 'redacted_thinking', data: 'xyz' }),
      done(1),
    );
    expect(events.slice(1, -1)).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'reasoning_signature', signature: 'anthropic:sig' },
      { type: 'encrypted_reasoning', data: 'anthropic:xyz' },
    ]);
  });

  it('numbers beyond doubles are preserved', () => {
    const text =
      '{"type":"message","content":[{"type":"tool_use","id":"a","name":"f","input":{"id":1234567890123456789,"x":[0.12345678901234567890]}}],"usage":{}}';
    expect(anthropicMessages.answer(text)).toContainEqual({
      type: 'tool_arguments',
      index: 0,
      text: '{"id":1234567890123456789,"x":[0.12345678901234567890]}',
    });
  });
});

describe('faults', () => {
  const error = (type: string) =>
    frame({ type: 'error', error: { type, message: 'It said sk-ant-api03-SECRETSECRETSECRET' } }, 'error');

  it.each([
    ['overloaded_error', 502, true],
    ['api_error', 502, true],
    ['timeout_error', 504, true],
    ['rate_limit_error', 429, true],
    ['invalid_request_error', 400, false],
  ])('%s in the stream', (type, status, isRetryable) => {
    const events = read(start({ input_tokens: 3 }), error(type), stop);
    expect(events.at(-1)).toMatchObject({ type: 'failure', error: { status }, isRetryable: isRetryable });
    expect(JSON.stringify(events)).not.toContain('SECRET');
  });

  it('are rewritten on the same wire, even without an event name', () => {
    const stream = messagesPassthrough.stream(about);
    const { text, events } = stream.push({ ...error('overloaded_error'), event: undefined });
    expect(text).toBe('');
    const failure = events.at(-1);
    expect(failure?.type).toBe('failure');
    if (failure?.type !== 'failure') return;
    const [first = '', second = ''] = stream.fail(failure.error).split('\n');
    expect(first).toBe('event: error');
    expect(JSON.parse(second.slice('data: '.length))).toEqual({
      type: 'error',
      error: failure.error.body,
      request_id: 'req_1',
    });
    expect(stream.finish().events).toEqual([]);
  });

  it('nonsense in the stream', () => {
    expect(read(start({}), frame('{"type":"conte')).at(-1)).toMatchObject({
      type: 'failure',
      isRetryable: true,
    });
    expect(read(start({}), frame('<html>', 'error')).at(-1)).toMatchObject({
      type: 'failure',
      isRetryable: true,
    });
  });

  it('a body that is not a message', () => {
    for (const text of ['', '<html>', '[]', '{"choices":[]}', '{"type":"message"}'])
      expect(() => anthropicMessages.answer(text)).toThrow(UpstreamFailure);
    const overloaded = '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}';
    expect(() => anthropicMessages.answer(overloaded)).toThrow(/Overloaded/);
  });

  const failure = (status: number, type: string, message: string, headers = {}) =>
    anthropicMessages.failure(status, JSON.stringify({ type: 'error', error: { type, message } }), headers);

  it.each([
    'prompt is too long: 209353 tokens > 200000 maximum',
    'input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again',
  ])('the window is exceeded: %s', (message) => {
    const fault = failure(400, 'invalid_request_error', message);
    expect(fault).toMatchObject({ isRetryable: false, isUnhealthy: false });
    expect(fault.error).toMatchObject({
      status: 422,
      type: 'upstream_error',
      code: 'context_length_exceeded',
    });
    expect(fault.error.message).toContain(message);
  });

  it.each([
    [400, 400, 'invalid_request_error', false, false],
    [401, 502, 'upstream_error', false, false],
    [403, 502, 'upstream_error', false, false],
    [404, 502, 'upstream_error', false, false],
    [413, 400, 'invalid_request_error', false, false],
    [429, 429, 'rate_limit_error', true, false],
    [500, 502, 'upstream_error', true, true],
    [529, 502, 'upstream_error', true, true],
  ])('status %d becomes %d', (status, answered, type, isRetryable, isUnhealthy) => {
    const fault = failure(status, 'some_error', 'No, sk-ant-api03-SECRETSECRETSECRET', {
      'retry-after': '7',
    });
    expect(fault).toMatchObject({
      error: { status: answered, type },
      isRetryable: isRetryable,
      isUnhealthy: isUnhealthy,
    });
    if (isRetryable) expect(fault.retryAfterMs).toBe(7000);
    expect(fault.error.message).not.toContain('SECRET');
  });
});

describeShared('the recorded files', [folder], (path) => {
  it('are all in the lists above', () => {
    const listed = [...streams.map((name) => `${name}.chunks.txt`), ...bodies.map((name) => `${name}.json`)];
    expect(readdirSync(path).sort()).toEqual(listed.sort());
  });
});
