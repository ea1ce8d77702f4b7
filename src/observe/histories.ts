import { existsSync } from 'node:fs';
import { checked } from './query/check.ts';
import type { Means } from './means.ts';
import { compile } from './query/compile.ts';
import { rowOf } from './query/rows.ts';
import type { CheckedQuery } from './query/types.ts';
import { unreadable } from './readers/failures.ts';
import type { ObserveEnvelope, ReadableRack, Transcripts } from './types.ts';
import { plainReason } from '../words/plain-reason.ts';

type Redactions = ObserveEnvelope['redactions'];

/** What somebody may read of the racks at this moment. */
export interface Opened {
  readonly racks: readonly ReadableRack[];
  readonly withheld: Redactions;
}

export async function openRacks(transcripts: Transcripts, by: string): Promise<Opened> {
  const { racks, withheld } = await ofRecorder(() => transcripts.readable(by));
  return {
    // One that was never armed has no history.
    racks: racks.filter(({ path }) => existsSync(path)),
    withheld: [
      ...withheld.map((rack) => ({
        what: `the rack ${rack}`,
        reason: `nobody granted it to be read: node dist/host.js recorder grant --rack ${rack} --verbs read --expires 1d, with --from beginning also what it holds already`,
      })),
      ...racks
        .filter(({ after = 0 }) => after > 0)
        .map(({ rack }) => ({
          what: `what was recorded in the rack ${rack} before it was granted`,
          reason: 'a grant begins when it is made, unless it is made with --from beginning',
        })),
    ],
  };
}

/** What the recorder cannot do is nothing that the host failed at. @throws ObserveError unavailable */
export async function ofRecorder<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw unreadable(plainReason(error), error);
  }
}

/** Passages of what a query is about that were never stored. */
export async function redactedIn({ query: { where } }: CheckedQuery, means: Means): Promise<Redactions> {
  const counting = checked({
    surface: 'transcript',
    ...(where === undefined ? {} : { where }),
    group_by: ['rack'],
    aggregate: [{ fn: 'sum', column: 'redacted' }],
  });
  const { reader, now, budgetMs, racks } = means;
  const { columns, ...statement } = compile(counting, {
    kind: reader.kind,
    now,
    racks,
  });
  const rows = await reader.read(statement, { budgetMs, racks });
  return rows
    .map((row) => rowOf(columns, row))
    .filter(([, count]) => Number(count) > 0)
    .map(([rack, count]) => ({
      what: `passages of texts in the rack ${String(rack)}`,
      reason: 'its policy had them taken out before they were stored',
      count: Number(count),
    }));
}
