import type { SignalStore } from './services.ts';
import type { StoreReader, Store, Tx } from '../store/index.ts';

export interface Signal {
  readonly seq: number;
  readonly name: string;
  readonly data: unknown;
}

/** Signals in the database, which gates of the kind `event` wait for. Ordered by `seq`. */
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

  /** Signals of a name after a `seq`, oldest first. */
  async after(name: string, seq: number, limit: number): Promise<Signal[]> {
    const rows = await this.#store.read((db) =>
      db
        .selectFrom('signals')
        .select(['seq', 'data'])
        .where('name', '=', name)
        .where('seq', '>', seq)
        .orderBy('seq')
        .limit(limit)
        .execute(),
    );
    return rows.map((row) => ({ seq: row.seq, name, data: JSON.parse(row.data) as unknown }));
  }
}
