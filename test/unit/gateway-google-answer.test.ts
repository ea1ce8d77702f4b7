import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import type { Conversation, Part } from '../../src/wires/core/conversation.ts';
import { google } from '../../src/wires/google/index.ts';
import { PartialArguments } from '../../src/wires/google/partial-arguments.ts';
import { cassettesPath, recordedBody, recordedFrames } from '../support/gateway/cassettes.ts';
import { frame } from '../support/gateway/frames.ts';
import { modelOf } from '../support/gateway/models.ts';
import { googleSpeech } from '../support/gateway/speech-google.ts';
import { type Say, resolveAnswer } from '../support/gateway/speech.ts';
import { describeShared } from '../support/shared.ts';
import type { SseFrame } from '../../src/wires/core/wire.ts';

const streamed = (frames: readonly SseFrame[]): AnswerEvent[] => {
  const reader = google.reader();
  return [...frames.flatMap((each) => reader.push(each)), ...reader.end()];
};
const chunks = (...all: unknown[]) => streamed(all.map((chunk) => frame(chunk)));
const candidate = (parts: unknown[], finishReason?: string) => ({
  candidates: [{ content: { role: 'model', parts }, ...(finishReason ? { finishReason } : {}) }],
});
const only = <T extends AnswerEvent['type']>(events: readonly AnswerEvent[], type: T) =>
  events.filter((event): event is Extract<AnswerEvent, { type: T }> => event.type === type);
const textOf = (events: readonly AnswerEvent[], type: 'text' | 'reasoning' = 'text') =>
  only(events, type)
    .map(({ text }) => text)
    .join('');
/** Events in the order that every writer relies on. */
function expectOrder(events: readonly AnswerEvent[]) {
  expect(only(events, 'start').length).toBeLessThanOrEqual(1);
  expect(only(events, 'finish')).toHaveLength(1);
  expect(events.at(-1)?.type).toBe('finish');
  expect(only(events, 'tool_call').map(({ index }) => index)).toEqual([...only(events, 'tool_call').keys()]);
}

describeShared('what Google answered', [cassettesPath('google')], () => {
  it.each([
    ['google-text', 'There are **3**', [9, 208], [9, 272]],
    ['google-reasoning-gemini3', 'There are **3**', [9, 325], [9, 287]],
  ])('%s, streamed and whole', (name, begin, ofStream, ofBody) => {
    const stream = streamed(recordedFrames(`google/${name}`));
    const body = google.answer(recordedBody(`google/${name}`));
    for (const [events, [fresh, output]] of [
      [stream, ofStream],
      [body, ofBody],
    ] as const) {
      expectOrder(events);
      expect(textOf(events).startsWith(begin)).toBe(true);
      expect(only(events, 'usage').at(-1)?.usage).toMatchObject({ fresh, cacheRead: 0, output });
      expect(only(events, 'reasoning_signature')[0]?.signature).toMatch(/^google:E/);
      expect(events.at(-1)).toEqual({ type: 'finish', reason: 'stop' });
    }
  });

  it('calls of a tool, streamed and whole', () => {
    for (const events of [
      streamed(recordedFrames('google/google-tool-call-gemini3')),
      google.answer(recordedBody('google/google-tool-call-gemini3')),
    ]) {
      expectOrder(events);
      const [call] = only(events, 'tool_call');
      expect(call).toMatchObject({
        index: 0,
        name: 'weather',
        signature: expect.stringMatching(/^E/) as string,
      });
      expect(call?.id).toMatch(/^call_g_[0-9a-f]{32}$/);
      expect(only(events, 'tool_arguments')).toEqual([
        { type: 'tool_arguments', index: 0, text: '{"location":"San Francisco"}' },
      ]);
      expect(events.at(-1)).toMatchObject({ reason: 'tool_calls' });
    }
  });

  it('calls whose arguments come in pieces', () => {
    const events = streamed(recordedFrames('google/google-stream-tool-call-arguments'));
    expectOrder(events);
    expect(only(events, 'tool_call').map(({ name, signature }) => [name, signature?.slice(0, 4)])).toEqual([
      ['getWeather', 'CiMB'],
      ['getWeather', undefined],
    ]);
    expect(only(events, 'tool_arguments').map(({ index, text }) => [index, text])).toEqual([
      [0, '{"location":"Boston"}'],
      [1, '{"location":"San Francisco"}'],
    ]);
    // Chunks that count nothing say nothing.
    expect(only(events, 'usage')).toEqual([
      {
        type: 'usage',
        usage: { fresh: 26, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, output: 155, reasoning: 132 },
      },
    ]);
  });

  it('too many requests, with the retry delay', () => {
    const fault = google.failure(429, recordedBody('google/google-429-retry-info'), {});
    expect(fault).toMatchObject({ isRetryable: true, isUnhealthy: false, retryAfterMs: 34_400 });
    expect(fault.error).toMatchObject({ status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' });
  });
});

describe('an answer of Google', () => {
  it.each([
    ['STOP', { reason: 'stop' }],
    ['MAX_TOKENS', { reason: 'length' }],
    ['SAFETY', { reason: 'content_filter', detail: 'SAFETY' }],
    ['RECITATION', { reason: 'content_filter', detail: 'RECITATION' }],
    ['IMAGE_PROHIBITED_CONTENT', { reason: 'content_filter', detail: 'IMAGE_PROHIBITED_CONTENT' }],
    ['MALFORMED_FUNCTION_CALL', { reason: 'stop', detail: 'MALFORMED_FUNCTION_CALL' }],
    ['WHAT_IS_NEW', { reason: 'stop', detail: 'WHAT_IS_NEW' }],
  ])('ended by %s', (reason, finish) => {
    expect(google.answer(JSON.stringify(candidate([{ text: 'x' }], reason))).at(-1)).toEqual({
      type: 'finish',
      ...finish,
    });
  });

  it('was blocked before it began', () => {
    const usageMetadata = { promptTokenCount: 7 };
    const events = google.answer(JSON.stringify({ promptFeedback: { blockReason: 'OTHER' }, usageMetadata }));
    expectOrder(events);
    expect(events.at(-1)).toEqual({ type: 'finish', reason: 'content_filter', detail: 'OTHER' });
    expect(only(events, 'usage')[0]?.usage).toMatchObject({ fresh: 7, output: 0 });
  });

  it('counts cached tokens within the input, thinking separately, and tool input', () => {
    const usageMetadata = {
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      toolUsePromptTokenCount: 5,
      candidatesTokenCount: 7,
      thoughtsTokenCount: 11,
    };
    const [usage] = only(chunks({ ...candidate([], 'STOP'), usageMetadata }), 'usage');
    expect(usage?.usage).toEqual({
      fresh: 45,
      cacheRead: 60,
      cacheWrite: 0,
      cacheWrite1h: 0,
      output: 18,
      reasoning: 11,
    });
  });

  it('keeps a count that the last chunk omits', () => {
    const events = chunks(
      { ...candidate([{ text: 'a' }]), usageMetadata: { promptTokenCount: 9, thoughtsTokenCount: 4 } },
      { ...candidate([{ text: 'b' }], 'STOP'), usageMetadata: { candidatesTokenCount: 2 } },
    );
    expect(only(events, 'usage').at(-1)?.usage).toMatchObject({ fresh: 9, output: 6 });
  });

  it('sends the finish reason last, even where the provider sends it early and repeatedly', () => {
    const events = chunks(candidate([{ text: 'a' }], 'STOP'), candidate([{ text: 'b' }], 'STOP'), {
      usageMetadata: { promptTokenCount: 1 },
    });
    expectOrder(events);
    expect(textOf(events)).toBe('ab');
  });

  it('has reasoning, signatures before the following text, and log probabilities', () => {
    const parts = [{ text: 'hm', thought: true }, { text: 'a', thoughtSignature: 'S' }, { text: 'b' }];
    const logprobsResult = {
      chosenCandidates: [{ token: 'ä', tokenId: 5, logProbability: -0.5 }],
      topCandidates: [{ candidates: [{ token: 'b', logProbability: -1 }] }],
    };
    const { candidates } = candidate(parts, 'STOP');
    expect(google.answer(JSON.stringify({ candidates: [{ ...candidates[0], logprobsResult }] }))).toEqual([
      { type: 'start' },
      { type: 'reasoning', text: 'hm' },
      { type: 'reasoning_signature', signature: 'google:S' },
      {
        type: 'text',
        text: 'a',
        logprobs: [
          {
            token: 'ä',
            logprob: -0.5,
            bytes: [195, 164],
            top_logprobs: [{ token: 'b', logprob: -1, bytes: [98] }],
          },
        ],
      },
      { type: 'text', text: 'b' },
      { type: 'finish', reason: 'stop' },
    ]);
  });

  it('keeps long numbers of arguments as they were written', () => {
    const body = `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"i","name":"f","args":{"a":12345678901234567890}}}]},"finishReason":"STOP"}]}`;
    expect(only(google.answer(body), 'tool_arguments')[0]?.text).toBe('{"a":12345678901234567890}');
    expect(only(google.answer(body), 'tool_call')[0]?.id).toBe('i');
  });

  it('has the arguments of a call before later content, whether or not the provider closed it', () => {
    const orphan = { functionCall: { partialArgs: [{ jsonPath: '$.a', stringValue: 'x' }] } };
    const events = chunks(
      candidate([{ functionCall: { name: 'f', args: { a: 1 } } }, { text: 'then' }, { functionCall: {} }]),
      candidate([{ functionCall: { name: 'g', willContinue: true } }]),
      candidate([{ functionCall: { name: 'h', args: {}, willContinue: true } }], 'STOP'),
    );
    expect(events.slice(1, -1).map((event) => (event.type === 'tool_call' ? event.name : event))).toEqual([
      'f',
      { type: 'tool_arguments', index: 0, text: '{"a":1}' },
      { type: 'text', text: 'then' },
      'g',
      { type: 'tool_arguments', index: 1, text: '{}' },
      'h',
      { type: 'tool_arguments', index: 2, text: '{}' },
    ]);
    const late = chunks(candidate([{ functionCall: { name: 'f', args: {} } }]), candidate([orphan], 'STOP'));
    expect(late.at(-1)).toMatchObject({ type: 'failure' });
  });

  it('that breaks off, or is invalid, is a retryable failure', () => {
    for (const events of [
      chunks(candidate([{ text: 'a' }])),
      chunks(),
      streamed([frame('{"candidates":[')]),
      chunks([]),
      chunks(candidate([{ functionCall: { partialArgs: [{ jsonPath: '$.a', stringValue: 'x' }] } }], 'STOP')),
      chunks(
        candidate([{ functionCall: { name: 'f', willContinue: true } }]),
        candidate(
          [{ functionCall: { partialArgs: [{ jsonPath: '$.a[9999999]', numberValue: 1 }] } }],
          'STOP',
        ),
      ),
    ]) {
      expect(events.filter(({ type }) => type === 'failure')).toHaveLength(1);
      expect(events.at(-1)).toMatchObject({
        isRetryable: true,
        error: { status: 502, code: 'upstream_failed' },
      });
      expect(only(events, 'finish')).toEqual([]);
    }
    for (const text of ['<html>', '{}', '[]', '{"candidates":[]}'])
      expect(() => google.answer(text)).toThrow(UpstreamFailure);
  });

  it('ignores empty frames of proxies', () => {
    const end = frame(candidate([{ text: 'a' }], 'STOP'));
    const events = streamed([frame(''), end, frame('[DONE]')]);
    expectOrder(events);
    expect(textOf(events)).toBe('a');
  });

  it('that fails within the stream reports it, and nothing after it', () => {
    const error = { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' };
    const events = chunks(candidate([{ text: 'a' }]), { error }, candidate([{ text: 'b' }], 'STOP'));
    expect(textOf(events)).toBe('a');
    expect(events.at(-1)).toMatchObject({ type: 'failure', isRetryable: true, error: { status: 502 } });
    const named = chunks({ error: { status: 'RESOURCE_EXHAUSTED', message: 'slow down' } });
    expect(named.at(-1)).toMatchObject({ error: { status: 429 } });
  });
});

describe('a refusal of Google', () => {
  const secret = 'AIzaSyD-0123456789abcdefghijklmnopqrstuv';
  const refusal = (code: number, status: string, message: string, details: object[] = []) =>
    google.failure(code, JSON.stringify({ error: { code, status, message, details } }), {});

  it('of a key has status 400 and never repeats the key', () => {
    const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }];
    const fault = refusal(400, 'INVALID_ARGUMENT', `API key not valid: ${secret}`, details);
    expect(fault.error).toMatchObject({ status: 502, code: 'provider_credential_rejected' });
    expect(JSON.stringify(fault.error.body)).not.toContain(secret.slice(4, 16));
    const echoed = refusal(400, 'INVALID_ARGUMENT', `bad key ${secret} there`);
    expect(echoed.error.status).toBe(400);
    expect(JSON.stringify(echoed.error.body)).not.toContain(secret.slice(4, 16));
  });

  it('distinguishes a context overflow from other request errors, in an array too', () => {
    const long = 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).';
    expect(refusal(400, 'INVALID_ARGUMENT', long).error).toMatchObject({
      status: 422,
      code: 'context_length_exceeded',
      message: expect.stringContaining('1048576') as string,
    });
    const listed = google.failure(400, JSON.stringify([{ error: { code: 400, message: 'Bad seed.' } }]), {});
    expect(listed.error).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      message: 'Bad seed.',
    });
  });

  it('of an account without access is not a request error', () => {
    const fault = refusal(400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.');
    expect(fault.error.status).toBe(502);
  });

  it('without a message does not repeat the page of a proxy', () => {
    const fault = google.failure(503, '<html>secret stuff</html>', {});
    expect(fault).toMatchObject({ isRetryable: true, isUnhealthy: true });
    expect(fault.error.message).not.toContain('secret stuff');
  });
});

const words = fc.string({ unit: 'grapheme', maxLength: 40 });
const anySay: fc.Arbitrary<Say> = fc.record({
  text: words,
  reasoning: words,
  calls: fc.array(
    fc.record({
      name: fc.constantFrom('weather', 'a-b'),
      arguments: fc.dictionary(words, fc.jsonValue({ maxDepth: 3 }), { maxKeys: 3, noNullPrototype: true }),
    }),
    { maxLength: 3 },
  ),
  finish: fc.constantFrom('stop' as const, 'length' as const, 'content_filter' as const),
  usage: fc.record({
    input: fc.integer({ min: 50, max: 1000 }),
    cacheRead: fc.nat(50),
    output: fc.integer({ min: 50, max: 1000 }),
    reasoning: fc.nat(50),
  }),
  usageAt: fc.constantFrom('usual' as const, 'twice' as const, 'late' as const, 'finish' as const),
  piece: fc.integer({ min: 1, max: 20 }),
});

describe('any answer of Google', () => {
  it('is read the same, streamed or buffered, with the same usage', () => {
    fc.assert(
      fc.property(anySay, (say) => {
        const spoken = resolveAnswer(say, 'm');
        const stream = streamed(googleSpeech.frames(spoken, {}));
        const body = google.answer(JSON.stringify(googleSpeech.body(spoken, {})));
        for (const events of [stream, body]) {
          expectOrder(events);
          expect(textOf(events)).toBe(say.text);
          expect(textOf(events, 'reasoning')).toBe(say.reasoning);
          expect(only(events, 'tool_arguments').map(({ text }) => text)).toEqual(
            spoken.calls.map((call) => call.arguments),
          );
          const called = spoken.calls.length > 0 && say.finish === 'stop';
          expect(events.at(-1)).toMatchObject({ reason: called ? 'tool_calls' : say.finish });
          const { input, cacheRead, output, reasoning } = spoken.usage;
          expect(only(events, 'usage').at(-1)?.usage).toEqual({
            fresh: input - cacheRead,
            cacheRead,
            cacheWrite: 0,
            cacheWrite1h: 0,
            output,
            reasoning,
          });
        }
      }),
    );
  });

  it('is returned as received: text, calls, and every signature on its part', () => {
    const seal = fc.option(fc.base64String({ minLength: 4, maxLength: 20 }), { nil: undefined });
    const part = fc.oneof(
      fc.record({ text: fc.string({ minLength: 1 }), thoughtSignature: seal }, { requiredKeys: ['text'] }),
      fc.record({
        functionCall: fc.record({
          id: fc.uuid(),
          name: fc.constantFrom('f', 'g'),
          args: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { noNullPrototype: true }),
        }),
        thoughtSignature: seal,
      }),
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), (list) => {
        const parts = JSON.parse(JSON.stringify(list)) as Record<string, unknown>[];
        const back = partsOf(google.answer(JSON.stringify(candidate(parts, 'STOP'))));
        const conversation: Conversation = {
          messages: [{ role: 'assistant', parts: back }],
          tools: [],
          stop: [],
          format: { type: 'text' },
        };
        const { text } = google.request(conversation, {
          model: modelOf('google'),
          stream: false,
          maxTokens: 1,
        });
        expect((JSON.parse(text) as { contents: unknown }).contents).toEqual([{ role: 'model', parts }]);
      }),
    );
  });

  it('argument pieces are assembled in any order of their paths', () => {
    const key = fc.string({ minLength: 1, maxLength: 5 });
    const value = fc.letrec<{ any: unknown }>((tie) => ({
      any: fc.oneof(
        { maxDepth: 3 },
        fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null)),
        fc.array(tie('any'), { minLength: 1, maxLength: 3 }),
        fc.dictionary(key, tie('any'), { minKeys: 1, maxKeys: 3, noNullPrototype: true }),
      ),
    }));
    fc.assert(
      fc.property(fc.dictionary(key, value.any, { noNullPrototype: true }), (args) => {
        const partial = new PartialArguments();
        for (const piece of piecesOf(args, '$')) partial.add(piece);
        expect(JSON.parse(partial.text)).toEqual(JSON.parse(JSON.stringify(args)));
      }),
    );
  });

  it('path names never reach the object prototype', () => {
    const partial = new PartialArguments();
    partial.merge(JSON.parse('{"a":{}}') as Record<string, unknown>);
    for (const jsonPath of ['$.__proto__.x', '$.a.__proto__.x', '$.a.constructor.prototype.x'])
      partial.add({ jsonPath, stringValue: 'y' });
    expect(({} as Record<string, unknown>)['x']).toBeUndefined();
    expect(Object.keys(JSON.parse(partial.text) as object)).toEqual(['a', '__proto__']);
  });
});

/** Parts as a caller returns them. */
function partsOf(events: readonly AnswerEvent[]): Part[] {
  const parts: Part[] = [];
  for (const event of events) {
    if (event.type === 'text') parts.push({ type: 'text', text: event.text });
    if (event.type === 'reasoning_signature')
      parts.push({ type: 'reasoning', text: '', signature: event.signature });
    if (event.type !== 'tool_call') continue;
    const { id, name, signature, index } = event;
    const written = events.find((each) => each.type === 'tool_arguments' && each.index === index);
    const text = written?.type === 'tool_arguments' ? written.text : '';
    parts.push({ type: 'tool_call', id, name, arguments: text, ...(signature ? { signature } : {}) });
  }
  return parts;
}

/** Parts as Google streams them: strings in two pieces. */
function piecesOf(value: unknown, jsonPath: string): object[] {
  if (typeof value === 'string') {
    const half = value.length >> 1;
    return [
      { jsonPath, stringValue: value.slice(0, half), willContinue: true },
      { jsonPath, stringValue: value.slice(half) },
    ];
  }
  if (typeof value === 'number') return [{ jsonPath, numberValue: value }];
  if (typeof value === 'boolean') return [{ jsonPath, boolValue: value }];
  if (value === null) return [{ jsonPath, nullValue: 'NULL_VALUE' }];
  if (Array.isArray(value)) return value.flatMap((each, index) => piecesOf(each, `${jsonPath}[${index}]`));
  return Object.entries(value as object).flatMap(([name, each]) => {
    const plain = /^[A-Za-z_]\w*$/.test(name);
    return piecesOf(each, plain ? `${jsonPath}.${name}` : `${jsonPath}[${JSON.stringify(name)}]`);
  });
}
