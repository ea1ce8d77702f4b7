import { Kysely, sql, type Transaction } from 'kysely';
import {
  retry,
  runMigrations,
  closeDatabase,
  type CommitSync,
  type Connection,
  type Database,
  createDialect,
  openDatabase,
  StoreError,
} from '../../store/index.ts';
import { migrations } from './migrations/index.ts';
import type { LedgerTables } from './tables.ts';
import { createSerialQueue } from './serial-queue.ts';

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
const retryDelaysMs = [5, 50, 250, 1000];
/** Lock for migrations: of several gateways that start at once, one runs them. */
const migrationLock = sql`select pg_advisory_xact_lock(1818326120, hashtext('gateway' || coalesce(current_schema(), '')))`;

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
  readonly #pending = new Set<Promise<unknown>>();
  /** Queues of writers. With SQLite both are the same queue, because there is one write connection. */
  readonly #queues: { readonly batch: SerialQueue; readonly transaction: SerialQueue };
  #closing: Promise<void> | undefined;

  private constructor(database: Database, replicaId: string, now: () => Date) {
    this.kind = database.kind;
    this.replicaId = replicaId;
    this.now = now;
    this.#database = database;
    this.#reader = new Kysely({ dialect: createDialect(database.kind, database.readPool) });
    this.#writer = new Kysely({ dialect: createDialect(database.kind, database.writePool) });
    const writerQueue = createSerialQueue();
    this.#queues = {
      batch: writerQueue,
      transaction: database.kind === 'sqlite' ? writerQueue : createSerialQueue(),
    };
  }

  /** Opens the database and runs its migrations. Rejects with `StoreError`. */
  static async open({ url, replicaId, now = () => new Date(), onNotice }: GatewayStoreOptions) {
    const options = {
      integerType: 'bigint',
      maxWriters: 2,
      cacheStatements: true,
      syncInBackground: true,
    } as const;
    const database = await openDatabase(url, (error) => onNotice?.(error.message), options);
    const store = new GatewayStore(database, replicaId, now);
    try {
      await store.transaction(async (tx) => {
        if (store.kind === 'postgres') await migrationLock.execute(tx);
        await runMigrations(tx, 'gateway_migrations', migrations, now);
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
    return this.#track(() => this.#queues.transaction(() => this.#writer.transaction().execute(work)));
  }

  /**
   * Same as `transaction`, for a few statements that run thousands of times a second: without Kysely, with a queue of its
   * own.
   * @param sync when SQLite syncs it to the disk
   */
  batch<T>(work: (connection: Connection) => T | Promise<T>, sync?: CommitSync): Promise<T> {
    return this.#track(() => this.#queues.batch(() => inTransaction(this.#database, work, sync)));
  }

  /** Resolves when everything that was committed, also to be synced later, is durable. */
  sync(): Promise<void> {
    return this.#database.sync();
  }

  /** Waits for running work, then closes the database. New work is rejected. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#pending).then(() => closeDatabase(this.#database));
    return this.#closing;
  }

  async #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing)
      throw new StoreError('storage_failed', 'the database is closed, because the gateway is stopping');
    const pending = retry(retryDelaysMs, work);
    this.#pending.add(pending);
    try {
      return await pending;
    } finally {
      this.#pending.delete(pending);
    }
  }
}

type SerialQueue = ReturnType<typeof createSerialQueue>;

async function inTransaction<T>(
  database: Database,
  work: (connection: Connection) => T | Promise<T>,
  sync: CommitSync | undefined,
): Promise<T> {
  const connection = await database.writePool.acquire();
  try {
    await connection.begin();
    try {
      const result = await work(connection);
      await connection.commit(sync);
      return result;
    } catch (error) {
      await connection.rollback();
      throw error;
    }
  } finally {
    connection.release();
  }
}
