import { AsyncLocalStorage } from 'node:async_hooks';
import { type Insertable, Kysely, sql, type Transaction } from 'kysely';
import { closeDatabase, openDatabase } from './database.ts';
import { type Database, dialectOf } from './dialect.ts';
import { again } from './again.ts';
import { StoreError } from './errors.ts';
import { migrate } from './migrate.ts';
import type { Tables } from './schema.ts';

/** What reads. */
export type Db = Kysely<Tables>;
/** Within a transaction. */
export type Tx = Transaction<Tables>;

/** An act before it has its number. */
export type NewAct = Pick<Insertable<Tables['acts']>, 'verb' | 'target' | 'by' | 'outcome'> &
  Partial<Pick<Insertable<Tables['acts']>, 'reason' | 'note' | 'details'>>;

export interface StoreOptions {
  /** `sqlite:PATH` or `postgres://...`. */
  readonly url: string;
  /** Names this host in what several share. */
  readonly endpointId: string;
  readonly now?: () => Date;
  /** Hears of broken connections that nobody was waiting on. */
  readonly onNotice?: (message: string) => void;
}

/** Pauses before what failed for no fault of its own is tried again, in ms. */
const pauses = [20, 200, 1000];

/** The one database: SQLite in the data directory, or PostgreSQL where several hosts share it. */
export class Store {
  readonly endpointId: string;
  readonly now: () => Date;
  readonly #database: Database;
  readonly #reader: Db;
  readonly #writer: Db;
  /** Whether the code that asks runs within a transaction of this store. */
  readonly #transaction = new AsyncLocalStorage<{ open: boolean }>();
  readonly #working = new Set<Promise<unknown>>();
  #lastTurn: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  private constructor(database: Database, { endpointId, now }: { endpointId: string; now: () => Date }) {
    this.#database = database;
    this.#reader = new Kysely({ dialect: dialectOf(database.kind, database.reading) });
    this.#writer = new Kysely({ dialect: dialectOf(database.kind, database.writing) });
    this.endpointId = endpointId;
    this.now = now;
  }

  /** Opens it and brings it up to date. Rejects with `StoreError`. */
  static async open({ url, endpointId, now = () => new Date(), onNotice }: StoreOptions): Promise<Store> {
    const database = await openDatabase(url, (error) => onNotice?.(error.message));
    const store = new Store(database, { endpointId, now });
    try {
      await again(pauses, () => migrate(store.#writer, now));
    } catch (error) {
      await closeDatabase(database);
      throw error;
    }
    return store;
  }

  /** RFC 3339 in UTC with milliseconds. */
  time(): string {
    return this.now().toISOString();
  }

  /**
   * Reads; what belongs together in one moment is read in `transaction`. May do its work again after a lost connection.
   */
  read<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return this.#track('read', () => work(this.#reader));
  }

  /**
   * All of it or nothing, and on the disk when it resolves. One at a time, also of several hosts on one database: what
   * the work reads stays true until it is over, so it waits for nothing but the database. The work may be done again
   * when the database gave it up, so it touches nothing but the database. Errors that it throws itself pass through.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return this.#track('transaction', () =>
      this.#inTurn(() =>
        this.#writer.transaction().execute(async (tx) => {
          const mark = { open: true };
          try {
            return await this.#transaction.run(mark, () => work(tx));
          } finally {
            mark.open = false;
          }
        }),
      ),
    );
  }

  /** The next number under a name. Without holes: a transaction that comes to nothing took none. */
  async next(tx: Tx, counter: 'task' | 'pending' | 'act' | 'signal' | 'session'): Promise<number> {
    const { value } = await tx
      .updateTable('counters')
      .set({ value: sql`value + 1` })
      .where('name', '=', counter)
      .returning('value')
      .executeTakeFirstOrThrow();
    return value;
  }

  /** Adds to the action journal. */
  async act(tx: Tx, act: NewAct): Promise<number> {
    const seq = await this.next(tx, 'act');
    const at = this.time();
    await tx
      .insertInto('acts')
      .values({ reason: null, note: null, details: null, ...act, seq, at, endpoint_id: this.endpointId })
      .execute();
    return seq;
  }

  /** When what is under way is over; nothing new begins. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#working).then(() => closeDatabase(this.#database));
    return this.#closing;
  }

  async #track<T>(what: 'read' | 'transaction', work: () => Promise<T>): Promise<T> {
    // It would wait for itself for ever, or not see what the transaction wrote.
    if (this.#transaction.getStore()?.open)
      throw new Error(`store.${what} within store.transaction: use the transaction that is there`);
    if (this.#closing)
      throw new StoreError('storage_failed', 'the database is closed, because the host is stopping');
    const working = again(pauses, work);
    this.#working.add(working);
    try {
      return await working;
    } finally {
      this.#working.delete(working);
    }
  }

  /** Not left to Kysely, which waits for ever after a connection that could not be had. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#lastTurn;
    const turn = Promise.withResolvers<void>();
    this.#lastTurn = turn.promise;
    await before;
    try {
      return await work();
    } finally {
      turn.resolve();
    }
  }
}
