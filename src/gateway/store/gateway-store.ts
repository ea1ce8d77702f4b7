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

/** What reads. Other pieces add their tables with `withTables`. */
export type GatewayDb = Kysely<LedgerTables>;
/** Within a transaction. */
export type GatewayTx = Transaction<LedgerTables>;

export interface GatewayStoreOptions {
  /** `sqlite:PATH` or `postgres://...`; its tables are called `gateway_*`, beside whatever else is there. */
  readonly url: string;
  /** Names this gateway among those that share the database; new with every start. */
  readonly replicaId: string;
  readonly now?: () => Date;
  /** Hears of broken connections that nobody was waiting on. */
  readonly onNotice?: (message: string) => void;
}

/** Pauses before what failed for no fault of its own is tried again, in ms. */
const pauses = [5, 50, 250, 1000];
/** Held while tables are made: of several gateways that start at once, one does it. */
const migrating = sql`select pg_advisory_xact_lock(1818326120, hashtext('gateway' || coalesce(current_schema(), '')))`;

/**
 * The gateway's database: SQLite, or PostgreSQL where several gateways share it. Unlike in the agent plane's store,
 * gateways write to PostgreSQL side by side: who decides about rows locks them first, accounts before keys, each in the
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
  /** SQLite has one connection for both. */
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

  /** Opens it and brings it up to date. Rejects with `StoreError`. */
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

  /** RFC 3339 in UTC with milliseconds. */
  time(): string {
    return this.now().toISOString();
  }

  /** Reads. May do its work again after a lost connection. Whole numbers come as `bigint`. */
  read<T>(work: (db: GatewayDb) => Promise<T>): Promise<T> {
    return this.#track(() => work(this.#reader));
  }

  /**
   * All of it or nothing, and on the disk when it resolves. The work may be done again when the database gave it up, so it
   * touches nothing but the database. On PostgreSQL others write meanwhile: change rows in one statement, or lock them.
   */
  transaction<T>(work: (tx: GatewayTx) => Promise<T>): Promise<T> {
    return this.#track(() => this.#turns.transaction(() => this.#writer.transaction().execute(work)));
  }

  /**
   * As `transaction`, for few statements that come thousands of times a second: without Kysely, on a way of its own.
   * @param alone nobody else waits: going to another thread and back would take longer than the disk
   */
  batch<T>(work: (connection: Connection) => T | Promise<T>, alone = false): Promise<T> {
    return this.#track(() => this.#turns.batch(() => within(this.#database, work, alone)));
  }

  /** When what is under way is over; nothing new begins. */
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
