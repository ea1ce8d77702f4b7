import { expect } from 'vitest';
import {
  type RackId,
  type TraceSink,
  Tracer,
  type TraceSpan,
  type TraceSpanKind,
} from '../../src/tracing/index.ts';

/** A tracer that records its spans. @param kept racks whose transcripts it wants */
export function createSpanRecorder(recordedRacks: readonly RackId[] = []) {
  const started: TraceSpan[] = [];
  const ended: TraceSpan[] = [];
  const sink: TraceSink = {
    wantsTranscript: (rack) => recordedRacks.includes(rack),
    onStart: (work) => started.push(work),
    onEnd: (work) => ended.push(work),
  };
  const tracer = new Tracer([sink]);
  const spansOf = <K extends TraceSpanKind>(kind: K): TraceSpan<K>[] =>
    started.filter((work): work is TraceSpan<K> & TraceSpan => work.kind === kind);
  /** Results of the spans of a kind: `ok`, or the failure. */
  const spanResults = (kind: TraceSpanKind) =>
    spansOf(kind).map(({ result: ending }) =>
      ending?.code === undefined ? ending?.outcome : `${ending.outcome} ${ending.code}`,
    );
  /** Expects that every started span has ended once, and parents after their children. */
  const expectAllEnded = () => {
    expect(ended).toHaveLength(started.length);
    expect(new Set(ended)).toEqual(new Set(started));
    for (const work of started) {
      expect(work.totalMs).toBeGreaterThanOrEqual(0);
      if (work.parent) expect(ended.indexOf(work)).toBeLessThan(ended.indexOf(work.parent));
    }
  };
  return { sink, tracer, started, ended, spansOf, spanResults, expectAllEnded };
}

export const transcriptLines = ({ transcript }: TraceSpan): string[] | undefined =>
  transcript?.map(({ role, text, name }) => `${role}${name === undefined ? '' : ` ${name}`}: ${text}`);
