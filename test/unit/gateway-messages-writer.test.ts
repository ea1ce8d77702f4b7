import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Cost } from '../../src/wires/core/types.ts';
import { WireError } from '../../src/wires/core/error.ts';
import type { AnswerEvent, FinishReason } from '../../src/wires/core/answer.ts';
import { messagesWire } from '../../src/wires/messages/client.ts';
import { anthropicMessages } from '../../src/wires/messages/upstream.ts';
import type { AnswerMetadata, StreamReceipt } from '../../src/wires/core/wire.ts';
import { framesOf, payloadsOf } from '../support/gateway/frames.ts';

const about = { requestId: 'req_00ff', model: 'the-model', created: 0 } as AnswerMetadata;
const cost: Cost = {
  total: 9_007_199_254_740_993n,
  components: { fresh: 9_007_199_254_740_990n, cache_write: 0n, cache_read: 1n, output: 2n },
};
const receipt: StreamReceipt = {
  cost,
  requestId: 'req_00ff',
  effectiveModel: 'the-model',
  reason: 'as_requested',
};

const streamed = (events: readonly AnswerEvent[]): string => {
  const writer = messagesWire.writer(about);
  return events.map((event) => writer.write(event)).join('') + writer.end(receipt);
};
const readBack = (text: string): AnswerEvent[] => {
  const reader = anthropicMessages.reader();
  return [...framesOf(text).flatMap((frame) => reader.push(frame)), ...reader.end()];
};

/** The content of an answer, independent of its pieces. */
function meaning(events: readonly AnswerEvent[]) {
  const parts: { kind: string; text: string; [more: string]: unknown }[] = [];
  const calls = new Map<number, { text: string }>();
  let sealed = false;
  const piece = (kind: string, text: string) => {
    const last = parts.at(-1);
    if (last?.kind === kind && !sealed) last.text += text;
    else parts.push({ kind, text });
    sealed = false;
  };
  let refusal = '';
  let end: Partial<AnswerEvent> = {};
  let usage: unknown = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };
  for (const event of events) {
    if (event.type === 'text' || event.type === 'reasoning') piece(event.type, event.text);
    if (event.type === 'reasoning_signature') {
      if (parts.at(-1)?.kind !== 'reasoning' || sealed) parts.push({ kind: 'reasoning', text: '' });
      Object.assign(parts.at(-1) ?? {}, { signature: event.signature });
      sealed = true;
    }
    if (event.type === 'encrypted_reasoning') parts.push({ kind: event.type, text: event.data });
    if (event.type === 'tool_call') {
      const call = { kind: event.type, text: '', id: event.id, name: event.name };
      parts.push(call);
      calls.set(event.index, call);
    }
    const call = event.type === 'tool_arguments' ? calls.get(event.index) : undefined;
    if (event.type === 'tool_arguments' && call) call.text += event.text;
    if (event.type === 'refusal') refusal += event.text;
    if (event.type === 'finish') end = event;
    if (event.type === 'usage') ({ usage } = event);
  }
  for (const call of calls.values()) call.text ||= '{}';
  return { parts, refusal, end, usage };
}

const counts = fc.nat({ max: 1_000_000 });
const usages = fc.record(
  {
    fresh: counts,
    cacheWrite: counts,
    cacheWrite1h: counts,
    cacheRead: counts,
    output: counts,
    reasoning: counts,
  },
  { requiredKeys: ['fresh', 'cacheWrite', 'cacheWrite1h', 'cacheRead', 'output'] },
);
const pieces = fc.array(fc.string({ minLength: 1, unit: 'binary' }), { minLength: 1, maxLength: 4 });
const seals = fc.string({ minLength: 1 }).map((seal) => `anthropic:${seal}`);
type Build = (index: number) => AnswerEvent[];
const contents: fc.Arbitrary<{ calls: number; build: Build }> = fc.oneof(
  pieces.map((texts) => ({
    calls: 0,
    build: () => texts.map((text): AnswerEvent => ({ type: 'text', text })),
  })),
  fc.tuple(pieces, seals).map(([texts, signature]) => ({
    calls: 0,
    build: (): AnswerEvent[] => [
      ...texts.map((text): AnswerEvent => ({ type: 'reasoning', text })),
      { type: 'reasoning_signature', signature },
    ],
  })),
  seals.map((signature) => ({
    calls: 0,
    build: (): AnswerEvent[] => [{ type: 'reasoning_signature', signature }],
  })),
  seals.map((data) => ({ calls: 0, build: (): AnswerEvent[] => [{ type: 'encrypted_reasoning', data }] })),
  // Up to three calls side by side, whose arguments may come mixed.
  fc
    .tuple(
      fc.array(fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }), { minLength: 1, maxLength: 3 }),
      fc.boolean(),
      fc.nat({ max: 9 }),
    )
    .map(([inputs, mixed, cut]) => ({
      calls: inputs.length,
      build: (first: number) => {
        const begin = inputs.map(
          (_, n): AnswerEvent => ({ type: 'tool_call', index: first + n, id: `c${first + n}`, name: 'f' }),
        );
        const halves = inputs.map((input, n) => {
          const text = JSON.stringify(input);
          const at = Math.min(cut, text.length);
          return [text.slice(0, at), text.slice(at)].map(
            (half): AnswerEvent => ({ type: 'tool_arguments', index: first + n, text: half }),
          );
        });
        return mixed
          ? [...begin, ...halves.map(([a]) => a as AnswerEvent), ...halves.map(([, b]) => b as AnswerEvent)]
          : begin.flatMap((call, n) => [call, ...(halves[n] as AnswerEvent[])]);
      },
    })),
);
const ends: fc.Arbitrary<AnswerEvent & { type: 'finish' }> = fc.constantFrom<
  AnswerEvent & { type: 'finish' }
>(
  { type: 'finish', reason: 'stop' },
  { type: 'finish', reason: 'stop', stopText: 'END' },
  { type: 'finish', reason: 'length' },
  { type: 'finish', reason: 'tool_calls' },
  { type: 'finish', reason: 'stop', detail: 'pause_turn' },
  { type: 'finish', reason: 'length', detail: 'model_context_window_exceeded' },
  { type: 'finish', reason: 'content_filter', detail: 'refusal' },
);
const answers = fc
  .record({ parts: fc.array(contents, { maxLength: 6 }), end: ends, usage: usages, early: fc.boolean() })
  .map(({ parts, end, usage, early }): AnswerEvent[] => {
    let calls = 0;
    const content = parts.flatMap(({ calls: more, build }) => {
      const events = build(calls);
      calls += more;
      return events;
    });
    const why: AnswerEvent[] = end.detail === 'refusal' ? [{ type: 'refusal', text: 'No.' }] : [];
    const first: AnswerEvent[] = early ? [{ type: 'usage', usage: { ...usage, output: 1 } }] : [];
    return [{ type: 'start', id: 'msg_1' }, ...first, ...content, ...why, end, { type: 'usage', usage }];
  });

describe('an answer is read back', () => {
  it('from its stream, one block open at a time, in the order that clients expect', () => {
    fc.assert(
      fc.property(answers, (events) => {
        const text = streamed(events);
        expect(meaning(readBack(text))).toEqual(meaning(events));
        checkOrder(text);
      }),
    );
  });

  it('from its body', () => {
    fc.assert(
      fc.property(answers, (events) => {
        const body = JSON.stringify(messagesWire.body(events, about));
        expect(meaning(anthropicMessages.answer(body))).toEqual(meaning(events));
      }),
    );
  });
});

interface Raw {
  readonly type: string;
  readonly index?: number;
  readonly delta?: { readonly type: string };
  readonly content_block?: { readonly type: string };
  readonly [member: string]: unknown;
}
const deltasOf: Readonly<Record<string, readonly string[]>> = {
  text: ['text_delta'],
  thinking: ['thinking_delta', 'signature_delta'],
  tool_use: ['input_json_delta'],
  redacted_thinking: [],
};

function checkOrder(text: string): void {
  const frames = framesOf(text);
  const events = frames.map(({ data }) => JSON.parse(data) as Raw);
  expect(events[0]?.type).toBe('message_start');
  expect(events.slice(-3).map(({ type }) => type)).toEqual(['message_delta', 'message_stop', 'ping']);
  let open: { index: number; kind: string; sealed: boolean } | undefined;
  let next = 0;
  events.slice(1, -3).forEach(({ type, index, delta, content_block: block }, n) => {
    expect(frames[n + 1]?.event).toBe(type);
    if (type === 'content_block_start') {
      expect(open).toBeUndefined();
      expect(index).toBe(next++);
      open = { index: index as number, kind: block?.type ?? '', sealed: false };
    } else if (type === 'content_block_delta') {
      expect(index).toBe(open?.index);
      expect(deltasOf[open?.kind ?? '']).toContain(delta?.type);
      expect(open?.sealed).toBe(false);
      if (open && delta?.type === 'signature_delta') open.sealed = true;
    } else {
      expect(type).toBe('content_block_stop');
      expect(index).toBe(open?.index);
      open = undefined;
    }
  });
  expect(open).toBeUndefined();
}

describe('a stream', () => {
  it('event by event', () => {
    const usage = { fresh: 5, cacheWrite: 1, cacheWrite1h: 2, cacheRead: 3, output: 9, reasoning: 4 };
    const text = streamed([
      { type: 'start' },
      { type: 'reasoning', text: 'hm' },
      { type: 'reasoning_signature', signature: 'anthropic:sig' },
      { type: 'text', text: 'A' },
      { type: 'tool_call', index: 0, id: 'c', name: 'f' },
      { type: 'tool_arguments', index: 0, text: '{}' },
      { type: 'finish', reason: 'tool_calls' },
      { type: 'usage', usage },
    ]);
    const none = {
      input_tokens: 0,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
      output_tokens: 0,
    };
    expect(payloadsOf(text).slice(0, -1)).toEqual([
      {
        type: 'message_start',
        message: {
          id: 'msg_00ff',
          type: 'message',
          role: 'assistant',
          model: 'the-model',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: none,
        },
      },
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'thinking', thinking: '', signature: '' },
      },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'sig' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'A' } },
      { type: 'content_block_stop', index: 1 },
      {
        type: 'content_block_start',
        index: 2,
        content_block: { type: 'tool_use', id: 'c', name: 'f', input: {} },
      },
      { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '{}' } },
      { type: 'content_block_stop', index: 2 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use', stop_sequence: null },
        usage: {
          input_tokens: 5,
          cache_creation_input_tokens: 3,
          cache_read_input_tokens: 3,
          cache_creation: { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 },
          output_tokens: 9,
          output_tokens_details: { thinking_tokens: 4 },
        },
      },
      { type: 'message_stop' },
    ]);
  });

  it('ends with the receipt, in integers beyond doubles too', () => {
    const last = streamed([{ type: 'finish', reason: 'stop' }])
      .split('\n\n')
      .at(-2);
    expect(last).toBe(
      'event: svc_receipt\ndata: {"type":"ping","svc_receipt":{"cost_nanousd":9007199254740993,"request_id":"req_00ff",' +
        '"effective_model":"the-model","components":{"fresh":9007199254740990,"cache_write":0,"cache_read":1,"output":2}}}',
    );
  });

  it('writes errors in-band like error bodies', () => {
    const error = new WireError(502, 'upstream_error', 'No.', { code: 'upstream_failed' });
    const [frame] = framesOf(messagesWire.writer(about).fail(error));
    expect(frame?.event).toBe('error');
    expect(JSON.parse(frame?.data ?? '')).toEqual(messagesWire.errorBody(error, 'req_00ff'));
    expect(messagesWire.errorBody(error, 'req_00ff')).toEqual({
      type: 'error',
      error: { type: 'upstream_error', message: 'No.', code: 'upstream_failed', param: null },
      request_id: 'req_00ff',
    });
  });
});

describe('the end of an answer', () => {
  it.each<[FinishReason, string | undefined, string]>([
    ['stop', undefined, 'end_turn'],
    ['stop', 'STOP', 'end_turn'],
    ['stop', 'pause_turn', 'pause_turn'],
    ['length', undefined, 'max_tokens'],
    ['length', 'MAX_TOKENS', 'max_tokens'],
    ['tool_calls', undefined, 'tool_use'],
    ['content_filter', 'SAFETY', 'refusal'],
  ])('%s, %s: %s', (reason, detail, expected) => {
    const finish: AnswerEvent = { type: 'finish', reason, ...(detail === undefined ? {} : { detail }) };
    expect(messagesWire.body([finish], about)).toMatchObject({ stop_reason: expected, stop_sequence: null });
    expect(streamed([finish])).toContain(`"stop_reason":"${expected}"`);
  });

  it('a refusal text of the model is a refusal', () => {
    const events: AnswerEvent[] = [
      { type: 'refusal', text: 'I will not.' },
      { type: 'finish', reason: 'stop' },
    ];
    expect(messagesWire.body(events, about)).toMatchObject({
      content: [],
      stop_reason: 'refusal',
      stop_details: { type: 'refusal', explanation: 'I will not.' },
    });
  });

  it('arguments that are not an object stay readable', () => {
    const events: AnswerEvent[] = [
      { type: 'tool_call', index: 0, id: 'a', name: 'f' },
      { type: 'tool_arguments', index: 0, text: '{"x":' },
      { type: 'finish', reason: 'length' },
    ];
    expect(messagesWire.body(events, about)).toMatchObject({
      content: [{ input: { invalid_json: '{"x":' } }],
    });
  });
});
