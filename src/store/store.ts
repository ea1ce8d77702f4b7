import { type Insertable, Kysely, sql, type Transaction } from 'kysely';
import { Migrator } from 'kysely/migration';
import { StoreError } from './errors.ts';
import { migrations } from './migrations/index.ts';
import { postgresDialect } from './postgres.ts';
import type { Tables } from './schema.ts';
import { sqliteDialect } from './sqlite.ts';

/** Within a transaction, or outside of one. */
export type Db = Kysely<Tables>;
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

/** The one database: SQLite in the data directory, or PostgreSQL where several hosts share it. */
export class Store {
  readonly endpointId: string;
  readonly now: () => Date;
  readonly #db: Db;

  private constructor(db: Db, endpointId: string, now: () => Date) {
    this.#db = db;
    this.endpointId = endpointId;
    this.now = now;
  }

  /** Opens it and brings it up to date. Rejects with `StoreError`. */
  static async open({ url, endpointId, now = () => new Date(), onNotice }: StoreOptions): Promise<Store> {
    const path = /^sqlite:(.+)$/.exec(url)?.[1];
    const dialect =
      path === undefined
        ? postgresDialect(url, (error) => onNotice?.(`the database: ${error.message}`))
        : sqliteDialect(path);
    const db = new Kysely<Tables>({ dialect });
    try {
      const migrator = new Migrator({
        db,
        provider: { getMigrations: () => Promise.resolve({ ...migrations }) },
      });
      const { error } = await migrator.migrateToLatest();
      if (error !== undefined) throw error;
    } catch (error) {
      await db.destroy().catch(() => undefined);
      throw asStoreError(error);
    }
    return new Store(db, endpointId, now);
  }

  /** RFC 3339 in UTC with milliseconds. */
  time(): string {
    return this.now().toISOString();
  }

  /** Reads; what belongs together in one moment is read in `transaction`. */
  async read<T>(work: (db: Db) => Promise<T>): Promise<T> {
    try {
      return await work(this.#db);
    } catch (error) {
      throw asStoreError(error);
    }
  }

  /** All of it or nothing, and on the disk when it resolves. Errors that the work throws itself pass through. */
  async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    try {
      return await this.#db.transaction().execute(work);
    } catch (error) {
      throw asStoreError(error);
    }
  }

  /** The next number under a name, for as long as the transaction lasts nobody else's. */
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

  async close(): Promise<void> {
    await this.#db.destroy();
  }
}

/** A refusal of a database as ours; anything else passes through. */
function asStoreError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  // SQLite: SQLITE_FULL; PostgreSQL: disk_full.
  if (errcode === 13 || code === '53100' || code === 'ENOSPC')
    return new StoreError('storage_full', `the disk of the database is full: ${error.message}`, {
      cause: error,
    });
  const failed =
    code === 'ERR_SQLITE_ERROR' ||
    code === 'ERR_INVALID_STATE' ||
    error.constructor.name === 'DatabaseError' ||
    (typeof code === 'string' && /^(?:ECONN|EPIPE|ENOTFOUND|ETIMEDOUT)/.test(code));
  return failed
    ? new StoreError('storage_failed', `the database: ${error.message}`, { cause: error })
    : error;
}
