import type { SignalStore } from './services.ts';
import type { StoreReader, Store, Tx } from '../store/index.ts';

export interface Signal {
  readonly seq: number;
  readonly name: string;
  readonly at: string;
  readonly data: unknown;
}

/** How long signals are kept, and how many at most. */
const maxAgeMs = 30 * 24 * 60 * 60 * 1000;
const maxRows = 200_000;
/** Signals that are deleted in one transaction. */
const deleteBatchSize = 1000;

/**
 * Signals in the database: the feed of events reads them, and gates of the kind `event` wait for them. Ordered by `seq`, which
 * has no gaps; a transaction with a higher `seq` is never visible before one with a lower.
 */
export class StoredSignals implements SignalStore {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async emit(tx: Tx, name: string, data: Readonly<Record<string, unknown>>): Promise<void> {
    await this.add(tx, name, data);
  }

  /** Stores a signal. @returns its `seq` */
  async add(tx: Tx, name: string, data: Readonly<Record<string, unknown>>): Promise<number> {
    const seq = await this.#store.nextNumber(tx, 'signal');
    const at = this.#store.time();
    await tx
      .insertInto('signals')
      .values({ seq, name, at, data: JSON.stringify(data) })
      .execute();
    return seq;
  }

  /** `seq` of the newest signal. */
  async last(db: StoreReader | Tx): Promise<number> {
    const { value } = await db
      .selectFrom('counters')
      .select('value')
      .where('name', '=', 'signal')
      .executeTakeFirstOrThrow();
    return value;
  }

  /** Signals after a `seq`, oldest first. @param name only those of this name */
  async after(db: StoreReader | Tx, seq: number, limit: number, name?: string): Promise<Signal[]> {
    const rows = await db
      .selectFrom('signals')
      .selectAll()
      .where('seq', '>', seq)
      .$if(name !== undefined, (query) => query.where('name', '=', name ?? ''))
      .orderBy('seq')
      .limit(limit)
      .execute();
    return rows.map((row) => ({ ...row, data: JSON.parse(row.data) as unknown }));
  }

  /** Deletes signals that are too old or too many. */
  async prune(): Promise<void> {
    const oldestAt = new Date(this.#store.now().getTime() - maxAgeMs).toISOString();
    for (;;) {
      const deleted = await this.#store.read(async (db) => {
        const oldest = await db
          .selectFrom('signals')
          .select(['seq', 'at'])
          .orderBy('seq')
          .limit(deleteBatchSize)
          .execute();
        const lastSeq = (await this.last(db)) - maxRows;
        // Up to the first that is kept, so that no gap arises where the clock was set back.
        const kept = oldest.findIndex(({ seq, at }) => seq > lastSeq && at >= oldestAt);
        return kept < 0 ? oldest : oldest.slice(0, kept);
      });
      const through = deleted.at(-1)?.seq;
      if (through === undefined) return;
      await this.#store.transaction((tx) => tx.deleteFrom('signals').where('seq', '<=', through).execute());
      if (deleted.length < deleteBatchSize) return;
    }
  }
}
