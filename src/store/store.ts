import { AsyncLocalStorage } from 'node:async_hooks';
import { type Insertable, Kysely, sql, type Transaction } from 'kysely';
import { closeDatabase, openDatabase } from './database.ts';
import { type Database, createDialect } from './dialect.ts';
import { retry } from './retry.ts';
import { StoreError } from './errors.ts';
import { migrateStore } from './migrate.ts';
import type { Tables } from './schema.ts';
import { eraseFreedBytes } from './sqlite-erase.ts';
import { type WrittenRow, WrittenRows } from './written-rows.ts';

/** Query builder for reads. */
export type StoreReader = Kysely<Tables>;
/** Query builder within a transaction. */
export type Tx = Transaction<Tables>;

/** A journal entry before it has its number. */
export type NewAct = Pick<Insertable<Tables['acts']>, 'verb' | 'target' | 'by' | 'outcome'> &
  Partial<Pick<Insertable<Tables['acts']>, 'reason' | 'note' | 'details'>>;

export interface StoreOptions {
  /** `sqlite:PATH` or `postgres://...`. */
  readonly url: string;
  /** Identifies this host among those that share the database. */
  readonly endpointId: string;
  readonly now?: () => Date;
  /** False: the database is used as it is. */
  readonly migrates?: boolean;
  /** Called after a transaction with the rows that it wrote. Must not throw. */
  readonly onWritten?: (rows: readonly WrittenRow[]) => void;
  /** Called when an idle connection breaks. */
  readonly onNotice?: (message: string) => void;
}

/** Delays before each retry of a retryable failure, in ms. */
const retryDelaysMs = [20, 200, 1000];

/** The host's database: SQLite in the data directory, or PostgreSQL when several hosts share it. */
export class Store {
  readonly endpointId: string;
  readonly now: () => Date;
  readonly #database: Database;
  readonly #reader: StoreReader;
  readonly #writer: StoreReader;
  readonly #written = new WrittenRows();
  readonly #onWritten: NonNullable<StoreOptions['onWritten']>;
  /** Detects calls from within a transaction of this store. */
  readonly #transaction = new AsyncLocalStorage<{ open: boolean }>();
  readonly #pending = new Set<Promise<unknown>>();
  #lastTransaction: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;
  #isEraseDue = false;
  #nextErase: Promise<void> | undefined;

  private constructor(
    database: Database,
    { endpointId, now, onWritten }: Required<Pick<StoreOptions, 'endpointId' | 'now' | 'onWritten'>>,
  ) {
    this.#database = database;
    this.#reader = new Kysely({ dialect: createDialect(database.kind, database.readPool) });
    this.#writer = new Kysely({
      dialect: createDialect(database.kind, database.writePool),
      plugins: [this.#written],
    });
    this.#onWritten = onWritten;
    this.endpointId = endpointId;
    this.now = now;
  }

  /** Opens the database and runs its migrations. Rejects with `StoreError`. */
  static async open(options: StoreOptions): Promise<Store> {
    const { url, endpointId, now = () => new Date(), migrates = true, onWritten = () => undefined } = options;
    const { onNotice } = options;
    const database = await openDatabase(url, (error) => onNotice?.(error.message));
    const store = new Store(database, { endpointId, now, onWritten });
    try {
      if (migrates) await retry(retryDelaysMs, () => migrateStore(store.#writer, now));
    } catch (error) {
      await closeDatabase(database);
      throw error;
    }
    return store;
  }

  /** The current time as RFC 3339 in UTC with milliseconds. */
  time(): string {
    return this.now().toISOString();
  }

  /**
   * Runs a read. Reads that need one consistent snapshot belong in `transaction`. `work` may run again after a lost
   * connection.
   */
  read<T>(work: (db: StoreReader) => Promise<T>): Promise<T> {
    return this.#track('read', () => work(this.#reader));
  }

  /**
   * Runs a transaction: atomic, and durable when it resolves. Transactions run one at a time, also those of several hosts on
   * one database, so what `work` reads stays valid until its end. `work` must therefore wait for nothing but the database,
   * and it must have no effects outside the database, because it may run again after a retryable failure. Errors that it
   * throws pass through.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return this.#track('transaction', () =>
      this.#serialize(() =>
        this.#writer.transaction().execute(async (tx) => {
          const transactionState = { open: true };
          try {
            return await this.#transaction.run(transactionState, () => work(tx));
          } finally {
            transactionState.open = false;
          }
        }),
      ),
    );
  }

  /**
   * Runs a transaction that deletes content, and removes what it deleted from the bytes of an SQLite file and of its
   * write-ahead log. `work` is as in `transaction`. PostgreSQL reuses the space when it vacuums the table.
   * `isEraseDue` says whether bytes remain, because another process was reading the file: the next call removes them.
   */
  async erase<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const isSqlite = this.#database.kind === 'sqlite';
    const result = await this.#track('transaction', () =>
      this.#serialize(async () => {
        if (isSqlite) await sql`pragma secure_delete = on`.execute(this.#writer);
        return await this.#writer.transaction().execute(work);
      }),
    );
    if (isSqlite) await this.#eraseFreedBytes();
    return result;
  }

  /** One pass for all deletions that wait for it. Where it fails, the next call makes another one. */
  #eraseFreedBytes(): Promise<void> {
    this.#isEraseDue = true;
    this.#nextErase ??= this.#track('transaction', () =>
      this.#serialize(async () => {
        this.#nextErase = undefined;
        this.#isEraseDue = !(await eraseFreedBytes(this.#writer));
      }),
    ).catch((error: unknown) => {
      this.#nextErase = undefined;
      if (!(error instanceof StoreError)) throw error;
    });
    return this.#nextErase;
  }

  get isEraseDue(): boolean {
    return this.#isEraseDue;
  }

  /** Returns the next number of a counter. There are no gaps: a transaction that is rolled back uses no number. */
  async nextNumber(tx: Tx, counter: 'task' | 'pending' | 'act' | 'signal' | 'session'): Promise<number> {
    const { value } = await tx
      .updateTable('counters')
      .set({ value: sql`value + 1` })
      .where('name', '=', counter)
      .returning('value')
      .executeTakeFirstOrThrow();
    return value;
  }

  /** Adds an entry to the action journal. Returns its number. */
  async appendAct(tx: Tx, act: NewAct): Promise<number> {
    const seq = await this.nextNumber(tx, 'act');
    const at = this.time();
    await tx
      .insertInto('acts')
      .values({ reason: null, note: null, details: null, ...act, seq, at, endpoint_id: this.endpointId })
      .execute();
    return seq;
  }

  /** Waits for running work, then closes the database. New work is rejected. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#pending).then(() => closeDatabase(this.#database));
    return this.#closing;
  }

  async #track<T>(operation: 'read' | 'transaction', work: () => Promise<T>): Promise<T> {
    // It would deadlock, or not see what the transaction wrote.
    if (this.#transaction.getStore()?.open)
      throw new Error(`store.${operation} within store.transaction: use the open transaction`);
    if (this.#closing)
      throw new StoreError('storage_failed', 'the database is closed, because the host is stopping');
    const pending = retry(retryDelaysMs, work);
    this.#pending.add(pending);
    try {
      return await pending;
    } finally {
      this.#pending.delete(pending);
    }
  }

  /** Serializes transactions. Kysely's own queue would block forever after a connection that could not be acquired. */
  async #serialize<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#lastTransaction;
    const turn = Promise.withResolvers<void>();
    this.#lastTransaction = turn.promise;
    await before;
    // Drops the rows of a transaction that was rolled back.
    this.#written.take();
    try {
      const result = await work();
      this.#onWritten(this.#written.take());
      return result;
    } finally {
      turn.resolve();
    }
  }
}
