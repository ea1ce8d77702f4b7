import { describe, expect, it, test } from 'vitest';
import { endingOf } from '../../src/http/ending.ts';
import { ClientGone, HttpError } from '../../src/http/error.ts';
import { ServedCounters } from '../../src/planes/served-counters.ts';
import { type CompletionAttributes, type SpanResult, Tracer } from '../../src/tracing/index.ts';

describe('the outcome of a failed response', () => {
  const problem = (status: number, code: string) => new HttpError(status, code, 'why');
  const cases: readonly (readonly [string, unknown, boolean, number | undefined, SpanResult])[] = [
    ['a refusal', problem(400, 'c'), false, undefined, { outcome: 'refused', status: 400, code: 'c' }],
    ['not supported', problem(501, 'c'), false, undefined, { outcome: 'refused', status: 501, code: 'c' }],
    [
      'a fault of the host',
      problem(503, 'c'),
      false,
      undefined,
      { outcome: 'failed', status: 503, code: 'c' },
    ],
    [
      'a refusal after the status line was sent',
      problem(429, 'c'),
      false,
      200,
      { outcome: 'refused', status: 200, code: 'c' },
    ],
    ['a refusal in the middle', problem(400, 'c'), true, 200, { outcome: 'failed', status: 200, code: 'c' }],
    [
      'a refusal in the middle of a buffered answer',
      problem(400, 'c'),
      true,
      undefined,
      { outcome: 'failed', status: 400, code: 'c' },
    ],
    ['a client that left', new ClientGone(), true, undefined, { outcome: 'abandoned', code: 'client_gone' }],
    [
      'a client that left a stream',
      new ClientGone(),
      true,
      200,
      { outcome: 'abandoned', status: 200, code: 'client_gone' },
    ],
    [
      'a client that stopped reading',
      problem(408, 'reader_stalled'),
      true,
      200,
      { outcome: 'abandoned', status: 200, code: 'reader_stalled' },
    ],
    [
      'an internal error',
      new TypeError('x'),
      false,
      undefined,
      { outcome: 'failed', status: 500, code: 'internal_error' },
    ],
  ];
  it.each(cases)('%s', (_, broken, begun, sent, expected) => {
    expect(endingOf(broken, begun ? { firstTokenMs: 1 } : {}, sent)).toEqual(expected);
  });
});

test('streamed completions are counted as served without tokens; incomplete answers and answers without text are not counted', () => {
  const served = new ServedCounters();
  const watch = new Tracer([served]);
  const done = (more: Partial<CompletionAttributes>, outcome: SpanResult['outcome'] = 'ok') => {
    const facts = { wire: 'chat', operation: 'chat', by: 'local', stream: false, ...more } as const;
    watch.startSpan('completion', 'r', facts).end({ outcome });
  };
  done({ finish: 'stop', promptTokens: 3, completionTokens: 4 });
  done({ finish: 'stop', promptTokens: 30, completionTokens: 40, stream: true });
  done({ operation: 'embeddings', promptTokens: 300 });
  done({});
  for (const outcome of ['refused', 'failed', 'abandoned'] as const)
    done({ finish: 'stop', promptTokens: 3000, completionTokens: 4000 }, outcome);
  watch
    .startSpan('turn', 't', { agent: 'a', engine: 'resident', model: 'm', finish: 'stop' })
    .end({ outcome: 'ok' });
  expect(served).toMatchObject({
    completions: 2,
    measuredCompletions: 1,
    promptTokens: 3,
    completionTokens: 4,
  });
});
