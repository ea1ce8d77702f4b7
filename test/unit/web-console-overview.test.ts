import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bucketStarts, valuesAt } from '../../web/console/views/observe/overview/buckets.ts';
import type { ResultRecord } from '../../web/console/views/observe/records.ts';
import {
  completionSpans,
  gatewaySpans,
  uncoveredMs,
  type WaterfallSpan,
  workSpans,
} from '../../web/console/views/observe/trace/spans.ts';

const minute = 60_000;
const total = (spans: readonly WaterfallSpan[]) => spans.reduce((sum, { durationMs }) => sum + durationMs, 0);
const named = (spans: readonly WaterfallSpan[]) =>
  Object.fromEntries(spans.map(({ name, startMs, durationMs }) => [name, [startMs, durationMs]]));

describe('buckets of a chart', () => {
  it('begin at whole widths, from the one of the start to the one of the end', () => {
    expect(bucketStarts(2.5 * minute, 5 * minute, minute)).toEqual([2, 3, 4, 5].map((n) => n * minute));
    expect(bucketStarts(7, 7, minute)).toEqual([0]);
  });

  it('are limited in number: the newest remain', () => {
    const starts = bucketStarts(0, 10_000 * minute, minute);
    expect(starts).toHaveLength(2000);
    expect(starts.at(-1)).toBe(10_000 * minute);
  });

  it('have a value where there is none in the result', () => {
    const values = new Map([[minute, 3]]);
    expect(valuesAt([0, minute], values, 0)).toEqual([0, 3]);
    expect(valuesAt([0, minute], values, null)).toEqual([null, 3]);
  });
});

describe('spans of a completion', () => {
  it('are receive, queue, prefill, decode and deliver, one after another', () => {
    const record = { total_ms: 100, first_token_ms: 45, queued_ms: 10, prefill_ms: 30, decode_ms: 50 };
    expect(named(completionSpans(record))).toEqual({
      Receive: [0, 5],
      Queue: [5, 10],
      Prefill: [15, 30],
      Decode: [45, 50],
      Deliver: [95, 5],
    });
  });

  it('are split at the first token where the parts were not measured', () => {
    expect(named(completionSpans({ total_ms: 100, first_token_ms: 40 }))).toEqual({
      'Until the first token': [0, 40],
      Decode: [40, 60],
    });
    expect(named(completionSpans({ total_ms: 3 }))).toEqual({ Request: [0, 3] });
  });

  it('add up to the latency, whatever was measured', () => {
    const ms = fc.option(fc.integer({ min: 0, max: 10_000 }), { nil: null });
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 10_000 }),
        ms,
        ms,
        ms,
        ms,
        (whole, first, queued, prefill, decode) => {
          const record: ResultRecord = {
            total_ms: whole,
            first_token_ms: first,
            queued_ms: queued,
            prefill_ms: prefill,
            decode_ms: decode,
          };
          const spans = completionSpans(record);
          expect(total(spans)).toBeCloseTo(whole, 6);
          for (const { startMs, durationMs } of spans) {
            expect(startMs).toBeGreaterThanOrEqual(0);
            expect(durationMs).toBeGreaterThan(0);
          }
        },
      ),
    );
  });
});

describe('spans of a request at the gateway', () => {
  const request = { total_ms: 100, ended_at: '2026-06-15T12:00:00.100Z' };
  const attempt = (n: number, startMs: number, durationMs: number, outcome = 'ok') => ({
    id: `r:attempt:${n}`,
    attempt: n,
    name: 'far',
    outcome,
    started_at: new Date(Date.parse('2026-06-15T12:00:00.000Z') + startMs).toISOString(),
    total_ms: durationMs,
  });

  it('are admission, each attempt and relaying', () => {
    const spans = gatewaySpans(request, [attempt(2, 50, 20), attempt(1, 10, 30, 'failed')]);
    expect(named(spans)).toEqual({
      Admission: [0, 10],
      'Attempt 1: far': [10, 30],
      'Attempt 2: far': [50, 20],
      Relay: [70, 30],
    });
    expect(uncoveredMs(100, spans), 'the delay before the second attempt').toBe(10);
  });

  it('are the admission alone where no provider was asked', () => {
    expect(named(gatewaySpans(request, []))).toEqual({ Admission: [0, 100] });
  });
});

describe('spans of a task', () => {
  it('are the answers and the tool calls by their start; what they leave uncovered is counted once', () => {
    const at = (startMs: number) => new Date(1000 + startMs).toISOString();
    const spans = workSpans(
      1000,
      [
        { id: 't1:1', started_at: at(0), total_ms: 20, outcome: 'ok' },
        { id: 't1:2', started_at: at(60), total_ms: 20, outcome: 'ok' },
      ],
      [
        { id: 't1:a', name: 'read', started_at: at(25), total_ms: 20, outcome: 'ok' },
        {
          id: 't1:b',
          name: 'list',
          started_at: at(30),
          total_ms: 20,
          outcome: 'failed',
          code: 'tool_failed',
        },
      ],
    );
    expect(spans.map(({ name }) => name)).toEqual([
      'Model, turn 1',
      'Tool read',
      'Tool list',
      'Model, turn 2',
    ]);
    expect(uncoveredMs(100, spans)).toBe(35);
  });
});
