import { closeSync, openSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import type { CompiledQuery, QueryResult } from 'kysely';
import { errorMessage } from '../util/error-message.ts';
import { pause } from '../util/pause.ts';
import {
  type Connection,
  type Connections,
  type Database,
  type DatabaseOptions,
  noStreams,
  storable,
} from './dialect.ts';
import { StoreError } from './errors.ts';
import { explainFile, explainSqlite, isBusy } from './sqlite-errors.ts';
import { SqliteLog } from './sqlite-log.ts';

/** How long another process may hold the file, in ms. SQLite's own waiting would hold up everything else in this one. */
const mostWait = 10_000;
/** In bytes; a log that once grew is cut back to this. */
const longestLog = 64 * 1024 * 1024;
/** Pages of the log that are brought into the database at once, where thousands of commits a second change the same ones. */
const pagesTogether = 4000;
/** Statements kept at once; more are prepared anew. */
const mostKept = 200;

/**
 * Node's own SQLite. An act is on the disk when its transaction is over (`synchronous=full`), and those who read are
 * not in the way of who writes, in this process or in another (WAL).
 */
export async function openSqlite(path: string, options: DatabaseOptions = {}): Promise<Database> {
  if (path === ':memory:')
    throw new StoreError(
      'storage_failed',
      'a database in memory keeps nothing: name a file, as in sqlite:PATH',
    );
  createFile(path);
  const writing = await connect(path, { readOnly: false, options });
  try {
    const { log } = writing;
    const reading = await connect(path, { readOnly: true, options, log });
    return { kind: 'sqlite', writing: only(writing), reading: only(reading) };
  } catch (error) {
    writing.close();
    throw error;
  }
}

/**
 * For its owner alone, which SQLite's other files then are too. An existing one is not touched: closing a file of one's
 * own would give up the locks that SQLite holds on it elsewhere in this process.
 */
function createFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw explainFile(error, path);
  }
}

const only = (connection: SqliteConnection): Connections => ({
  acquire: () => Promise.resolve(connection),
  close: () => Promise.resolve(connection.close()),
});

async function connect(
  path: string,
  { readOnly, options, log }: { readOnly: boolean; options: DatabaseOptions; log?: SqliteLog | undefined },
): Promise<SqliteConnection> {
  let db: DatabaseSync;
  try {
    db = new DatabaseSync(path, { timeout: 0 });
  } catch (error) {
    throw explainSqlite(error, path);
  }
  try {
    const mode = await patiently(() => db.prepare('pragma journal_mode = wal').get()?.['journal_mode']);
    if (mode !== 'wal')
      throw new StoreError(
        'storage_failed',
        `${path} stands on a file system that SQLite's write-ahead log cannot work on: use a local disk, or PostgreSQL`,
      );
    db.exec(`pragma synchronous = full; pragma journal_size_limit = ${longestLog}`);
    if (readOnly) db.exec('pragma query_only = on');
    if (readOnly || !options.syncApart) return new SqliteConnection(db, path, { ...options, readOnly, log });
    db.exec(`pragma synchronous = normal; pragma wal_autocheckpoint = ${pagesTogether}`);
    // The log is there from the first look on.
    await patiently(() => db.prepare('select count(*) from sqlite_schema').get());
    return new SqliteConnection(db, path, { ...options, readOnly, log: new SqliteLog(path) });
  } catch (error) {
    db.close();
    throw explainSqlite(error, path);
  }
}

interface Prepared {
  readonly statement: StatementSync;
  /** Whether it gives rows. */
  readonly isQuery: boolean;
}

class SqliteConnection implements Connection {
  readonly #db: DatabaseSync;
  readonly #path: string;
  /** Of the transaction under way: what went wrong in it. */
  #transaction: { failure?: StoreError } | undefined;

  /** Where commits come to the disk from another thread. */
  readonly log: SqliteLog | undefined;
  /** What was committed before may be lost when the machine stops. */
  #unsure = false;
  readonly #readOnly: boolean;
  readonly #bigints: boolean;
  readonly #kept: Map<string, Prepared> | undefined;

  readonly streamQuery = noStreams;

  constructor(
    db: DatabaseSync,
    path: string,
    {
      integers,
      keepStatements,
      readOnly,
      log,
    }: DatabaseOptions & { readOnly: boolean; log: SqliteLog | undefined },
  ) {
    this.log = log;
    this.#readOnly = readOnly;
    this.#db = db;
    this.#path = path;
    this.#bigints = integers === 'bigint';
    this.#kept = keepStatements ? new Map() : undefined;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    if (this.#transaction) return this.run(sql, parameters);
    try {
      const result = await patiently(() => this.#run<R>(sql, parameters));
      // What was read may be of a commit that is not on the disk yet. Who made it hears of what goes wrong.
      if (this.log?.syncing) await this.log.syncing.catch(() => undefined);
      return result;
    } catch (error) {
      throw explainSqlite(error, this.#path);
    }
  }

  run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> {
    const transaction = this.#transaction;
    // As PostgreSQL has it. And SQLite itself rolls back when the disk is full: what came after would stand alone.
    if (transaction?.failure) throw transaction.failure;
    try {
      return this.#run(sql, parameters);
    } catch (error) {
      const failure = explainSqlite(error, this.#path);
      if (transaction) transaction.failure = failure;
      throw failure;
    }
  }

  #run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> {
    const { statement, isQuery } = this.#prepared(sql);
    const values = storable(parameters) as SQLInputValue[];
    if (isQuery) return { rows: statement.all(...values) as R[] };
    const { changes, lastInsertRowid } = statement.run(...values);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  }

  /** Preparing takes some 10 us, a transaction some 1000: worth keeping for who counts in thousands a second only. */
  #prepared(sql: string): Prepared {
    const known = this.#kept?.get(sql);
    if (known) return known;
    const statement = this.#db.prepare(sql);
    if (this.#bigints) statement.setReadBigInts(true);
    const prepared = { statement, isQuery: statement.columns().length > 0 };
    if (this.#kept && this.#kept.size < mostKept) this.#kept.set(sql, prepared);
    return prepared;
  }

  async begin(): Promise<void> {
    if (this.#unsure) this.#bringIn('an earlier write failed');
    try {
      // Plain `begin` asks for the right to write in the middle of the transaction, and then fails where it cannot have it.
      await patiently(() => this.#db.exec('begin immediate'));
      this.#transaction = {};
    } catch (error) {
      throw explainSqlite(error, this.#path);
    }
  }

  async commit(here = false): Promise<void> {
    if (this.#transaction?.failure) throw this.#transaction.failure;
    try {
      this.#db.exec('commit');
      this.#transaction = undefined;
      if (here && this.log?.isQuick) this.#syncedHere();
      else await this.#synced();
    } catch (error) {
      throw explainSqlite(error, this.#path);
    }
  }

  async #synced(): Promise<void> {
    try {
      await this.log?.sync();
    } catch (cause) {
      this.#bringIn(cause);
    }
  }

  #syncedHere(): void {
    try {
      this.log?.syncHere();
    } catch (cause) {
      this.#bringIn(cause);
    }
  }

  /** After a failure the system no longer knows what is not on the disk: SQLite writes it once more, elsewhere. */
  #bringIn(cause: unknown): void {
    try {
      this.#unsure = true;
      const [done] = this.#db.prepare('pragma wal_checkpoint(truncate)').all();
      this.#unsure = Number(done?.['busy']) !== 0;
    } catch {
      // It stays unsure.
    }
    if (this.#unsure)
      throw new StoreError(
        'storage_unsure',
        `${this.#path} may not be on the disk: ${errorMessage(cause)}. Look at the disk`,
        { cause },
      );
  }

  async rollback(): Promise<void> {
    this.#transaction = undefined;
    try {
      if (this.#db.isTransaction) this.#db.exec('rollback');
    } catch {
      // What SQLite cannot roll back it refuses to go on from, at the next `begin`.
    }
  }

  release(): void {}

  close(): void {
    if (!this.#db.isOpen) return;
    if (!this.#readOnly) this.log?.close();
    this.#db.close();
  }
}

/** Waits while another process holds the file, without holding up this one. */
async function patiently<T>(work: () => T): Promise<T> {
  const begun = performance.now();
  for (let wait = 1; ; wait = Math.min(wait * 2, 50)) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() - begun > mostWait) throw error;
      const ms = wait * (0.5 + Math.random());
      await pause(ms);
    }
  }
}
