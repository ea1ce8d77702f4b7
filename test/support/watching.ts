import { expect } from 'vitest';
import { type RackId, type Sink, Watch, type Work, type WorkKind } from '../../src/watch/index.ts';

/** A tracer that records its spans. @param kept racks whose transcripts it wants */
export function watching(kept: readonly RackId[] = []) {
  const begun: Work[] = [];
  const ended: Work[] = [];
  const sink: Sink = {
    keepsTexts: (rack) => kept.includes(rack),
    began: (work) => begun.push(work),
    ended: (work) => ended.push(work),
  };
  const watch = new Watch([sink]);
  const of = <K extends WorkKind>(kind: K): Work<K>[] =>
    begun.filter((work): work is Work<K> & Work => work.kind === kind);
  /** Results of the spans of a kind: `ok`, or the failure. */
  const endings = (kind: WorkKind) =>
    of(kind).map(({ ending }) =>
      ending?.code === undefined ? ending?.outcome : `${ending.outcome} ${ending.code}`,
    );
  /** Expects that every started span has ended once, and parents after their children. */
  const expectWhole = () => {
    expect(ended).toHaveLength(begun.length);
    expect(new Set(ended)).toEqual(new Set(begun));
    for (const work of begun) {
      expect(work.totalMs).toBeGreaterThanOrEqual(0);
      if (work.parent) expect(ended.indexOf(work)).toBeLessThan(ended.indexOf(work.parent));
    }
  };
  return { sink, watch, begun, ended, of, endings, expectWhole };
}

export const saidBy = ({ said }: Work): string[] | undefined =>
  said?.map(({ role, text, name }) => `${role}${name === undefined ? '' : ` ${name}`}: ${text}`);
