import { Kysely, sql, type Transaction } from 'kysely';
import {
  again,
  bringUpToDate,
  closeDatabase,
  type Connection,
  type Database,
  dialectOf,
  openDatabase,
  StoreError,
} from '../../store/index.ts';
import { migrations } from './migrations/index.ts';
import type { LedgerTables } from './tables.ts';
import { turns } from './turns.ts';

/** Query builder for reads. Other modules add their tables with `withTables`. */
export type GatewayDb = Kysely<LedgerTables>;
/** Query builder within a transaction. */
export type GatewayTx = Transaction<LedgerTables>;

export interface GatewayStoreOptions {
  /** `sqlite:PATH` or `postgres://...`. The tables are named `gateway_*`; the database may hold others. */
  readonly url: string;
  /** Identifies this gateway among those that share the database; new with every start. */
  readonly replicaId: string;
  readonly now?: () => Date;
  /** Called when an idle connection breaks. */
  readonly onNotice?: (message: string) => void;
}

/** Delays before each retry of a retryable failure, in ms. */
const pauses = [5, 50, 250, 1000];
/** Lock for migrations: of several gateways that start at once, one runs them. */
const migrating = sql`select pg_advisory_xact_lock(1818326120, hashtext('gateway' || coalesce(current_schema(), '')))`;

/**
 * The gateway's database: SQLite, or PostgreSQL when several gateways share it. Unlike the agent plane's store, gateways
 * write to PostgreSQL concurrently: a writer locks the rows it decides about first, accounts before keys, each in the
 * order of their ids.
 */
export class GatewayStore {
  readonly kind: Database['kind'];
  readonly replicaId: string;
  readonly now: () => Date;
  readonly #database: Database;
  readonly #reader: GatewayDb;
  readonly #writer: GatewayDb;
  readonly #working = new Set<Promise<unknown>>();
  /** Queues of writers. With SQLite both are the same queue, because there is one write connection. */
  readonly #turns: { readonly batch: Turn; readonly transaction: Turn };
  #closing: Promise<void> | undefined;

  private constructor(database: Database, replicaId: string, now: () => Date) {
    this.kind = database.kind;
    this.replicaId = replicaId;
    this.now = now;
    this.#database = database;
    this.#reader = new Kysely({ dialect: dialectOf(database.kind, database.reading) });
    this.#writer = new Kysely({ dialect: dialectOf(database.kind, database.writing) });
    const first = turns();
    this.#turns = { batch: first, transaction: database.kind === 'sqlite' ? first : turns() };
  }

  /** Opens the database and runs its migrations. Rejects with `StoreError`. */
  static async open({ url, replicaId, now = () => new Date(), onNotice }: GatewayStoreOptions) {
    const options = { integers: 'bigint', writers: 2, keepStatements: true, syncApart: true } as const;
    const database = await openDatabase(url, (error) => onNotice?.(error.message), options);
    const store = new GatewayStore(database, replicaId, now);
    try {
      await store.transaction(async (tx) => {
        if (store.kind === 'postgres') await migrating.execute(tx);
        await bringUpToDate(tx, 'gateway_migrations', migrations, now);
      });
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

  /** Runs a read. `work` may run again after a lost connection. Integers are returned as `bigint`. */
  read<T>(work: (db: GatewayDb) => Promise<T>): Promise<T> {
    return this.#track(() => work(this.#reader));
  }

  /**
   * Runs a transaction: atomic, and durable when it resolves. `work` may run again after a retryable failure, so it must
   * have no effects outside the database. On PostgreSQL other transactions run concurrently: change rows in one statement,
   * or lock them.
   */
  transaction<T>(work: (tx: GatewayTx) => Promise<T>): Promise<T> {
    return this.#track(() => this.#turns.transaction(() => this.#writer.transaction().execute(work)));
  }

  /**
   * Same as `transaction`, for a few statements that run thousands of times a second: without Kysely, with a queue of its
   * own.
   * @param commitInline sync to the disk in this thread, when nothing else waits: faster than a second thread
   */
  batch<T>(work: (connection: Connection) => T | Promise<T>, alone = false): Promise<T> {
    return this.#track(() => this.#turns.batch(() => within(this.#database, work, alone)));
  }

  /** Waits for running work, then closes the database. New work is rejected. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#working).then(() => closeDatabase(this.#database));
    return this.#closing;
  }

  async #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing)
      throw new StoreError('storage_failed', 'the database is closed, because the gateway is stopping');
    const working = again(pauses, work);
    this.#working.add(working);
    try {
      return await working;
    } finally {
      this.#working.delete(working);
    }
  }
}

type Turn = ReturnType<typeof turns>;

async function within<T>(
  database: Database,
  work: (connection: Connection) => T | Promise<T>,
  alone: boolean,
): Promise<T> {
  const connection = await database.writing.acquire();
  try {
    await connection.begin();
    try {
      const result = await work(connection);
      await connection.commit(alone);
      return result;
    } catch (error) {
      await connection.rollback();
      throw error;
    }
  } finally {
    connection.release();
  }
}
