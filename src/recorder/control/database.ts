import { Kysely, sql, type Transaction } from 'kysely';
import {
  again,
  bringUpToDate,
  closeDatabase,
  type Database,
  dialectOf,
  StoreError,
} from '../../store/index.ts';
import { openSqlite } from '../../store/sqlite.ts';
import { migrations } from './migrations.ts';
import type { ControlTables } from './tables.ts';

export type ControlDb = Kysely<ControlTables>;
export type ControlTx = Transaction<ControlTables>;

/** Pauses before what failed for no fault of its own is tried again, in ms. */
const pauses = [20, 200, 1000];

/**
 * Rules, grants, tokens and the review: of the host and of whoever uses the command line beside it. Nothing is remembered,
 * so that what one of them changes counts for the other at once.
 */
export class ControlDatabase {
  readonly now: () => Date;
  readonly #database: Database;
  readonly #reader: ControlDb;
  readonly #writer: ControlDb;
  #lastTurn: Promise<unknown> = Promise.resolve();

  private constructor(database: Database, now: () => Date) {
    this.#database = database;
    this.now = now;
    this.#reader = new Kysely({ dialect: dialectOf('sqlite', database.reading) });
    this.#writer = new Kysely({ dialect: dialectOf('sqlite', database.writing) });
  }

  /** @throws StoreError */
  static async open(path: string, now: () => Date): Promise<ControlDatabase> {
    const database = await openSqlite(path, { syncApart: true, keepStatements: true });
    const control = new ControlDatabase(database, now);
    try {
      await control.transaction((tx) => bringUpToDate(tx, 'recorder_migrations', migrations, now));
      return control;
    } catch (error) {
      await closeDatabase(database);
      throw error;
    }
  }

  /** RFC 3339 in UTC with milliseconds. */
  time(): string {
    return this.now().toISOString();
  }

  /** Another one whenever something was written. */
  async version(): Promise<number> {
    const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(this.#reader);
    return rows[0]?.data_version ?? 0;
  }

  read<T>(work: (db: ControlDb) => Promise<T>): Promise<T> {
    return work(this.#reader);
  }

  /** All of it or nothing, and on the disk when it resolves. What it reads stays true until it is over. */
  transaction<T>(work: (tx: ControlTx) => Promise<T>): Promise<T> {
    const done = this.#lastTurn.then(() => again(pauses, () => this.#writer.transaction().execute(work)));
    this.#lastTurn = done.catch(() => undefined);
    return done;
  }

  /** When what is under way is over. */
  async close(): Promise<void> {
    await this.#lastTurn;
    await closeDatabase(this.#database);
  }
}

export const isFull = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'storage_full';
