import { existsSync } from 'node:fs';
import { checkQuery } from './query/check-query.ts';
import type { QueryContext } from './query-context.ts';
import { compile } from './query/compile.ts';
import { toRow } from './query/rows.ts';
import type { CheckedQuery } from './query/types.ts';
import { unavailable } from './readers/errors.ts';
import type { ObserveEnvelope, ReadableRack, Transcripts } from './types.ts';
import { safeErrorReason } from '../words/plain-reason.ts';
import { commandOf } from '../terminal/program.ts';

type Redactions = ObserveEnvelope['redactions'];

/** The racks that a caller can read now. */
export interface OpenRacks {
  readonly racks: readonly ReadableRack[];
  readonly withheld: Redactions;
}

export async function openRacks(transcripts: Transcripts, by: string): Promise<OpenRacks> {
  const { racks, withheld } = await withRecorderErrors(() => transcripts.readable(by));
  return {
    // A rack that was never armed has no history.
    racks: racks.filter(({ path }) => existsSync(path)),
    withheld: [
      ...withheld.map((rack) => ({
        what: `the rack ${rack}`,
        reason: `there is no grant to read it. Create one: ${commandOf('host')} recorder grant --rack ${rack} --verbs read --expires 1d (add --from beginning to include earlier events)`,
      })),
      ...racks
        .filter(({ after = 0 }) => after > 0)
        .map(({ rack }) => ({
          what: `events recorded in the rack ${rack} before the grant`,
          reason: 'a grant covers events from its creation on, unless it is created with --from beginning',
        })),
    ],
  };
}

/** Runs an operation of the recorder. @throws ObserveError unavailable, if it fails */
export async function withRecorderErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw unavailable(safeErrorReason(error), error);
  }
}

/** Counts the redacted passages in the rows that a query matches. */
export async function countRedactions(
  { query: { where } }: CheckedQuery,
  means: QueryContext,
): Promise<Redactions> {
  const countQuery = checkQuery({
    surface: 'transcript',
    ...(where === undefined ? {} : { where }),
    group_by: ['rack'],
    aggregate: [{ fn: 'sum', column: 'redacted' }],
  });
  const { reader, now, budgetMs, racks } = means;
  const { columns, ...statement } = compile(countQuery, {
    kind: reader.kind,
    now,
    racks,
  });
  const rows = await reader.read(statement, { budgetMs, racks });
  return rows
    .map((row) => toRow(columns, row))
    .filter(([, count]) => Number(count) > 0)
    .map(([rack, count]) => ({
      what: `passages in the rack ${String(rack)}`,
      reason: 'redacted by its policy before they were stored',
      count: Number(count),
    }));
}
