import { statSync } from 'node:fs';
import { Kysely, sql, type Transaction } from 'kysely';
import {
  retry,
  runMigrations,
  closeDatabase,
  type Database,
  createDialect,
  StoreError,
} from '../../store/index.ts';
import { openSqlite } from '../../store/sqlite.ts';
import { migrations } from './migrations.ts';
import type { ControlTables } from './tables.ts';

export type ControlDb = Kysely<ControlTables>;
export type ControlTx = Transaction<ControlTables>;

/** Delays before retries of a transaction that failed for a transient reason. */
const retryDelaysMs = [20, 200, 1000];

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
  #lastTransaction: Promise<unknown> = Promise.resolve();

  private constructor(path: string, database: Database, now: () => Date) {
    this.#path = path;
    this.#identity = fileIdentity(path);
    this.#database = database;
    this.now = now;
    this.#reader = new Kysely({ dialect: createDialect('sqlite', database.readPool) });
    this.#writer = new Kysely({ dialect: createDialect('sqlite', database.writePool) });
  }

  /** @throws StoreError */
  static async open(path: string, now: () => Date): Promise<ControlDatabase> {
    const database = await openSqlite(path, { syncInBackground: true, cacheStatements: true });
    const control = new ControlDatabase(path, database, now);
    try {
      await control.transaction((tx) => runMigrations(tx, 'recorder_migrations', migrations, now));
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
    this.#assertSameFile();
    return await work(this.#reader);
  }

  /** Runs a transaction. It is on disk when it resolves; writers are serialized. */
  transaction<T>(work: (tx: ControlTx) => Promise<T>): Promise<T> {
    const done = this.#lastTransaction.then(() => {
      this.#assertSameFile();
      return retry(retryDelaysMs, () => this.#writer.transaction().execute(work));
    });
    this.#lastTransaction = done.catch(() => undefined);
    return done;
  }

  /**
   * Fails if the file was removed or replaced: a grant that is revoked in the new file would stay active in the old
   * one.
   */
  #assertSameFile(): void {
    if (fileIdentity(this.#path) === this.#identity) return;
    throw new StoreError(
      'storage_failed',
      `${this.#path} was removed or replaced while in use; put it back or restart the host`,
    );
  }

  /** Closes the database after the last transaction. */
  async close(): Promise<void> {
    await this.#lastTransaction;
    await closeDatabase(this.#database);
  }
}

function fileIdentity(path: string): string {
  const { dev, ino } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return `${dev} ${ino}`;
}

export const isStorageFull = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'storage_full';
