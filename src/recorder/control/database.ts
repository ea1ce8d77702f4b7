import { statSync } from 'node:fs';
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

/** Delays before retries of a transaction that failed for a transient reason. */
const pauses = [20, 200, 1000];

/**
 * Database of policies, grants, tokens and the review, shared by the host and the command line. Nothing is cached, so
 * that a change by one process applies to the other at once.
 */
export class ControlDatabase {
  readonly now: () => Date;
  readonly #path: string;
  /** Identity of the opened file. */
  readonly #identity: string;
  readonly #database: Database;
  readonly #reader: ControlDb;
  readonly #writer: ControlDb;
  #lastTurn: Promise<unknown> = Promise.resolve();

  private constructor(path: string, database: Database, now: () => Date) {
    this.#path = path;
    this.#identity = identityOf(path);
    this.#database = database;
    this.now = now;
    this.#reader = new Kysely({ dialect: dialectOf('sqlite', database.reading) });
    this.#writer = new Kysely({ dialect: dialectOf('sqlite', database.writing) });
  }

  /** @throws StoreError */
  static async open(path: string, now: () => Date): Promise<ControlDatabase> {
    const database = await openSqlite(path, { syncApart: true, keepStatements: true });
    const control = new ControlDatabase(path, database, now);
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

  /** Changes whenever another connection writes. */
  async version(): Promise<number> {
    const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(this.#reader);
    return rows[0]?.data_version ?? 0;
  }

  async read<T>(work: (db: ControlDb) => Promise<T>): Promise<T> {
    this.#refuseStrange();
    return await work(this.#reader);
  }

  /** Runs a transaction. It is on disk when it resolves; writers are serialized. */
  transaction<T>(work: (tx: ControlTx) => Promise<T>): Promise<T> {
    const done = this.#lastTurn.then(() => {
      this.#refuseStrange();
      return again(pauses, () => this.#writer.transaction().execute(work));
    });
    this.#lastTurn = done.catch(() => undefined);
    return done;
  }

  /**
   * Fails if the file was removed or replaced: a grant that is revoked in the new file would stay active in the old
   * one.
   */
  #refuseStrange(): void {
    if (identityOf(this.#path) === this.#identity) return;
    throw new StoreError(
      'storage_failed',
      `${this.#path} was removed or replaced while in use; put it back or restart the host`,
    );
  }

  /** Closes the database after the last transaction. */
  async close(): Promise<void> {
    await this.#lastTurn;
    await closeDatabase(this.#database);
  }
}

function identityOf(path: string): string {
  const { dev, ino } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return `${dev} ${ino}`;
}

export const isFull = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'storage_full';
