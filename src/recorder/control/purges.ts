import { randomBytes } from 'node:crypto';
import type { HistoryTotals } from '../histories/history.ts';
import type { Tombstone } from '../types.ts';
import { type ControlDatabase, isStorageFull } from './database.ts';
import type { Review } from './review.ts';

/** A requested purge. */
export interface PendingPurge extends Tombstone {
  /** Generation of the history after the purge. */
  readonly generation: number;
}

/** Stores purges until they are complete, so that a purge interrupted by a crash is finished at the next start. */
export class Purges {
  readonly #control: ControlDatabase;
  readonly #review: Review;

  constructor(control: ControlDatabase, review: Review) {
    this.#control = control;
    this.#review = review;
  }

  async begin(
    { rack, generation, by }: Pick<PendingPurge, 'rack' | 'generation' | 'by'>,
    found: HistoryTotals,
  ): Promise<PendingPurge> {
    const purge: PendingPurge = {
      id: `d${randomBytes(8).toString('hex')}`,
      rack,
      generation,
      at: this.#control.time(),
      by,
      ...found,
    };
    const { id, at } = purge;
    try {
      await this.#control.transaction((tx) =>
        tx
          .insertInto('purges')
          .values({ id, rack, generation, at, by, found: JSON.stringify(found) })
          .execute(),
      );
    } catch (error) {
      // A full disk must not prevent a purge, which frees space.
      if (!isStorageFull(error)) throw error;
    }
    return purge;
  }

  /** Oldest first. */
  async unfinished(): Promise<PendingPurge[]> {
    const rows = await this.#control.read((db) =>
      db.selectFrom('purges').selectAll().orderBy('at').orderBy('generation').execute(),
    );
    return rows.map(({ found, ...row }) => ({ ...row, ...(JSON.parse(found) as HistoryTotals) }));
  }

  /** Removes a purge that did not delete anything. */
  async cancel({ id }: PendingPurge): Promise<void> {
    await this.#control.transaction((tx) => tx.deleteFrom('purges').where('id', '=', id).execute());
  }

  /** @param removed totals of what was deleted; undefined: the history was already gone */
  async complete(purge: PendingPurge, removed: HistoryTotals | undefined): Promise<Tombstone> {
    const { id, rack, at, by } = purge;
    // After a crash behind the deletion, only the totals at the time of the request are known.
    const { events, bytes, from, to } = removed && removed.events >= purge.events ? removed : purge;
    const tombstone: Tombstone = { id, rack, at, by, events, bytes, from, to };
    await this.#control.transaction(async (tx) => {
      await tx.deleteFrom('purges').where('id', '=', purge.id).execute();
      const details = { id, at, events, bytes, from, to };
      await this.#review.insert(tx, { by, act: 'purge', rack, details });
    });
    return tombstone;
  }
}
