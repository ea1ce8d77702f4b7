import { closeSync, openSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import type { CompiledQuery, QueryResult } from 'kysely';
import { errorMessage } from '../util/error-message.ts';
import { sleep } from '../util/sleep.ts';
import {
  type CommitSync,
  type Connection,
  type ConnectionPool,
  type Database,
  type DatabaseOptions,
  rejectStreaming,
  toStorableParameters,
} from './dialect.ts';
import { StoreError } from './errors.ts';
import { explainFile, explainSqlite, isBusy } from './sqlite-errors.ts';
import { SqliteLog } from './sqlite-log.ts';

/** How long to wait for a lock of another process, in ms. SQLite's own busy timeout would block the event loop. */
const maxLockWaitMs = 10_000;
/** How long a commit that is synced later waits for another one to share its sync, in ms. */
const maxSyncDelayMs = 5;
/** Size limit of the write-ahead log, in bytes: a larger log is truncated to this at a checkpoint. */
const maxLogBytes = 64 * 1024 * 1024;
/** Pages in the log that trigger a checkpoint, for thousands of commits a second that change the same pages. */
const checkpointPages = 4000;
/** Limit of cached statements; others are prepared for every use. */
const maxCachedStatements = 200;

/**
 * Opens a database with Node's SQLite. A transaction is durable when it commits (`synchronous=full`), and readers do not
 * block writers, in this process or another (WAL).
 */
export async function openSqlite(path: string, options: DatabaseOptions = {}): Promise<Database> {
  if (path === ':memory:')
    throw new StoreError(
      'storage_failed',
      'a database in memory is not durable: name a file, as in sqlite:PATH',
    );
  createFile(path);
  const writing = await connect(path, { readOnly: false, options });
  try {
    const { log } = writing;
    const reading = await connect(path, { readOnly: true, options, log });
    return {
      kind: 'sqlite',
      writePool: singleConnectionPool(writing),
      readPool: singleConnectionPool(reading),
      sync: () => writing.sync(),
    };
  } catch (error) {
    writing.close();
    throw error;
  }
}

/**
 * Creates the file with mode 0600, which SQLite also uses for its other files. An existing file is not opened here: closing
 * it would release the locks that SQLite holds on it elsewhere in this process (POSIX).
 */
function createFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw explainFile(error, path);
  }
}

const singleConnectionPool = (connection: SqliteConnection): ConnectionPool => ({
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
    const mode = await retryWhileBusy(() => db.prepare('pragma journal_mode = wal').get()?.['journal_mode']);
    if (mode !== 'wal')
      throw new StoreError(
        'storage_failed',
        `${path} is on a file system that does not support SQLite's write-ahead log: use a local disk, or PostgreSQL`,
      );
    db.exec(`pragma synchronous = full; pragma journal_size_limit = ${maxLogBytes}`);
    if (readOnly) db.exec('pragma query_only = on');
    if (readOnly || !options.syncInBackground)
      return new SqliteConnection(db, path, { ...options, readOnly, log });
    db.exec(`pragma synchronous = normal; pragma wal_autocheckpoint = ${checkpointPages}`);
    // The first read creates the log file.
    await retryWhileBusy(() => db.prepare('select count(*) from sqlite_schema').get());
    return new SqliteConnection(db, path, { ...options, readOnly, log: new SqliteLog(path) });
  } catch (error) {
    db.close();
    throw explainSqlite(error, path);
  }
}

interface PreparedStatement {
  readonly statement: StatementSync;
  /** Whether the statement returns rows. */
  readonly isQuery: boolean;
}

class SqliteConnection implements Connection {
  readonly #db: DatabaseSync;
  readonly #path: string;
  /** The open transaction, with its first failure. */
  #transaction: { failure?: StoreError } | undefined;

  /** Set when commits are synced to the disk in another thread. */
  readonly log: SqliteLog | undefined;
  #syncTimer: NodeJS.Timeout | undefined;
  /** The sync that begins when the running one has ended. */
  #nextSync: Promise<void> | undefined;
  /** A sync failed: earlier commits may be lost if the machine stops. */
  #isUnsure = false;
  readonly #isReadOnly: boolean;
  readonly #readsBigints: boolean;
  readonly #statementCache: Map<string, PreparedStatement> | undefined;

  readonly streamQuery = rejectStreaming;

  constructor(
    db: DatabaseSync,
    path: string,
    {
      integerType,
      cacheStatements,
      readOnly,
      log,
    }: DatabaseOptions & { readOnly: boolean; log: SqliteLog | undefined },
  ) {
    this.log = log;
    this.#isReadOnly = readOnly;
    this.#db = db;
    this.#path = path;
    this.#readsBigints = integerType === 'bigint';
    this.#statementCache = cacheStatements ? new Map() : undefined;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    if (this.#transaction) return this.run(sql, parameters);
    try {
      const result = await retryWhileBusy(() => this.#run<R>(sql, parameters));
      // The rows may belong to a commit that is not durable yet, so wait for its sync. The writer gets a sync error.
      const syncing = this.log?.flush?.() ?? this.log?.runningSync;
      if (syncing) await syncing.catch(() => undefined);
      return result;
    } catch (error) {
      throw explainSqlite(error, this.#path);
    }
  }

  run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> {
    const transaction = this.#transaction;
    // A failed transaction stays failed, as in PostgreSQL. SQLite itself rolls back when the disk is full, so later
    // statements would run outside the transaction.
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
    const { statement, isQuery } = this.#prepareStatement(sql);
    const values = toStorableParameters(parameters) as readonly SQLInputValue[];
    if (isQuery) return { rows: statement.all(...values) as R[] };
    const { changes, lastInsertRowid } = statement.run(...values);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  }

  /** Preparing takes about 10 us and a transaction about 1000 us, so only stores with thousands of writes a second cache. */
  #prepareStatement(sql: string): PreparedStatement {
    const cached = this.#statementCache?.get(sql);
    if (cached) return cached;
    const statement = this.#db.prepare(sql);
    if (this.#readsBigints) statement.setReadBigInts(true);
    const prepared = { statement, isQuery: statement.columns().length > 0 };
    if (this.#statementCache && this.#statementCache.size < maxCachedStatements)
      this.#statementCache.set(sql, prepared);
    return prepared;
  }

  async begin(): Promise<void> {
    if (this.#isUnsure) this.#checkpointAfterFailedSync('an earlier write failed');
    try {
      // Plain `begin` takes the write lock only at the first write, and would then fail when another process has it.
      await retryWhileBusy(() => this.#db.exec('begin immediate'));
      this.#transaction = {};
    } catch (error) {
      throw explainSqlite(error, this.#path);
    }
  }

  async commit(sync: CommitSync = 'background'): Promise<void> {
    if (this.#transaction?.failure) throw this.#transaction.failure;
    try {
      this.#db.exec('commit');
      this.#transaction = undefined;
      if (this.#isUnsure) {
        this.#checkpointAfterFailedSync('an earlier write failed');
        return;
      }
      const isIdle = !this.log?.runningSync && !this.#nextSync;
      if (sync === 'inline' && this.log?.isFast && isIdle) {
        this.#syncLogInline();
        return;
      }
      this.#syncLogLater();
      if (sync !== 'later') await this.sync();
    } catch (error) {
      throw explainSqlite(error, this.#path);
    }
  }

  async sync(): Promise<void> {
    const { log } = this;
    if (log?.flush) await log.flush();
    else await log?.runningSync?.catch(() => undefined);
    // An earlier sync may have failed that nobody waited for.
    if (this.#isUnsure) this.#checkpointAfterFailedSync('an earlier write failed');
  }

  #syncLogLater(): void {
    const { log } = this;
    if (!log || log.flush) return;
    log.flush = () => this.#flushLog();
    this.#syncTimer = setTimeout(() => {
      log.flush?.().catch(() => undefined);
    }, maxSyncDelayMs);
  }

  /**
   * Syncs what was committed before the sync begins; one after the other. If a running sync failed, a second one at the same
   * time would succeed without the data of the first being on the disk.
   */
  #flushLog(): Promise<void> {
    this.#nextSync ??= (async () => {
      await this.log?.runningSync?.catch(() => undefined);
      this.#nextSync = undefined;
      if (!this.#isUnsure) return await this.#syncLog();
      this.#endSyncDelay();
      this.#checkpointAfterFailedSync('an earlier write failed');
    })();
    return this.#nextSync;
  }

  /** A sync covers the commits that wait for one. */
  #endSyncDelay(): void {
    clearTimeout(this.#syncTimer);
    if (this.log) this.log.flush = undefined;
  }

  async #syncLog(): Promise<void> {
    this.#endSyncDelay();
    try {
      await this.log?.sync();
    } catch (cause) {
      this.#checkpointAfterFailedSync(cause);
    }
  }

  #syncLogInline(): void {
    this.#endSyncDelay();
    try {
      this.log?.syncInline();
    } catch (cause) {
      this.#checkpointAfterFailedSync(cause);
    }
  }

  /**
   * Recovers from a failed sync with a checkpoint. After a failed fsync the kernel no longer tracks the unwritten pages;
   * the checkpoint writes the data again, into the database file.
   */
  #checkpointAfterFailedSync(cause: unknown): void {
    try {
      this.#isUnsure = true;
      const [done] = this.#db.prepare('pragma wal_checkpoint(truncate)').all();
      this.#isUnsure = Number(done?.['busy']) !== 0;
    } catch {
      // `#unsure` stays true.
    }
    if (this.#isUnsure)
      throw new StoreError(
        'storage_unsure',
        `the last changes to ${this.#path} may not be on the disk: ${errorMessage(cause)}. Check the disk`,
        { cause },
      );
  }

  async rollback(): Promise<void> {
    this.#transaction = undefined;
    try {
      if (this.#db.isTransaction) this.#db.exec('rollback');
    } catch {
      // If SQLite cannot roll back, the next `begin` fails.
    }
  }

  release(): void {}

  close(): void {
    if (!this.#db.isOpen) return;
    if (!this.#isReadOnly) this.#endSyncDelay();
    if (!this.#isReadOnly) this.log?.close();
    this.#db.close();
  }
}

/** Retries while another process holds the lock, without blocking the event loop. */
async function retryWhileBusy<T>(work: () => T): Promise<T> {
  const startedAt = performance.now();
  for (let delayMs = 1; ; delayMs = Math.min(delayMs * 2, 50)) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedAt > maxLockWaitMs) throw error;
      const ms = delayMs * (0.5 + Math.random());
      await sleep(ms);
    }
  }
}
