import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Transcripts } from '../observe/types.ts';
import { explainSqlite } from '../store/sqlite-errors.ts';
import { readOnlyUriOf } from '../store/sqlite-read-only.ts';
import { type RackId, racks } from '../tracing/index.ts';
import { lastHiddenSeq, appliesTo, widestAccess } from './control/grants.ts';
import { currentGeneration, historyPath } from './histories/history-files.ts';
import type { HistoryPosition, Verb } from './types.ts';

/**
 * Reads the racks of a host that is not running, as far as active grants allow. Nothing is written; even the review
 * gets no entry about the read.
 * @param folder folder of the recorder
 */
export const offlineTranscripts = (folder: string, now: () => Date): Transcripts => ({
  async readable(by) {
    const { granted, purged } = readControlState(folder, by, now().toISOString());
    const readable = racks.flatMap((rack) => {
      const generation = granted.has(rack) ? currentGeneration(folder, rack) : undefined;
      // A history whose purge was interrupted by a kill must not be read.
      return generation === undefined || generation < (purged.get(rack) ?? 0)
        ? []
        : [
            {
              rack,
              path: historyPath(folder, rack, generation),
              after: lastHiddenSeq(generation, granted.get(rack)),
            },
          ];
    });
    return { racks: readable, withheld: racks.filter((rack) => !granted.has(rack)) };
  },
  read: () => Promise.resolve(),
});

interface ControlState {
  readonly granted: ReadonlyMap<RackId, HistoryPosition | undefined>;
  /** Generation of each rack after its unfinished purges. */
  readonly purged: ReadonlyMap<string, number>;
}

/** @throws StoreError */
function readControlState(folder: string, by: string, now: string): ControlState {
  const path = join(folder, 'recorder.db');
  if (!existsSync(path)) return { granted: new Map(), purged: new Map() };
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(readOnlyUriOf(path).uri, { readOnly: true, timeout: 1000 });
    const grants = db
      .prepare('select * from grants where revoked_at is null and expires_at > ?')
      .all(now) as {
      rack: RackId;
      verbs: string;
      to: string;
      after_generation?: number;
      after_seq?: number;
    }[];
    const purges = db
      .prepare('select rack, max(generation) as generation from purges group by rack')
      .all() as { rack: RackId; generation: number }[];
    return {
      granted: widestAccess(
        grants
          .filter(({ verbs, to }) => (JSON.parse(verbs) as Verb[]).includes('read') && appliesTo(to, by))
          // Databases of older hosts lack these columns.
          .map(({ rack, after_generation = null, after_seq = null }) => ({
            rack,
            after_generation,
            after_seq,
          })),
      ),
      purged: new Map(purges.map(({ rack, generation }) => [rack, generation])),
    };
  } catch (error) {
    throw explainSqlite(error, path);
  } finally {
    db?.close();
  }
}
