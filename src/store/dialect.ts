import {
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';

/** A connection to either database. */
export interface Connection extends DatabaseConnection {
  /** Same as `executeQuery`, within a transaction. Synchronous in SQLite, where a promise costs as much as a statement. */
  run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> | Promise<QueryResult<R>>;
  /** Begins a transaction with the write lock: no other connection or process writes until `commit` or `rollback`. */
  begin(): Promise<void>;
  /** @param sync how SQLite syncs to the disk; default: in another thread. PostgreSQL always syncs before this resolves. */
  commit(sync?: CommitSync): Promise<void>;
  /** Never rejects: a connection that cannot roll back is closed, and the database rolls back. */
  rollback(): Promise<void>;
  release(): void;
}

/**
 * When a commit of SQLite is synced to the disk: by another thread before it resolves; by this thread before it resolves,
 * if the disk is fast, which is cheaper when the thread has nothing else to do; or after it resolved, with the next commit,
 * by `Database.sync` or a few ms later. What is not synced survives a crash of the process, not of the machine.
 */
export type CommitSync = 'background' | 'inline' | 'later';

/** A pool of connections. */
export interface ConnectionPool {
  acquire(): Promise<Connection>;
  close(): Promise<void>;
}

/** A database with a pool for reads and one for writes, so that reads do not wait for writes. */
export interface Database {
  readonly kind: 'sqlite' | 'postgres';
  readonly readPool: ConnectionPool;
  /** Write connections are limited: acquiring a second one before releasing the first may deadlock. */
  readonly writePool: ConnectionPool;
  /** Makes durable what was committed to be synced later. Rejects with `StoreError` `storage_unsure`. */
  sync(): Promise<void>;
}

/** Options; the defaults are those of the agent plane's store. */
export interface DatabaseOptions {
  /** The type in which integers are read: counts fit a `number`, amounts of money do not. */
  readonly integerType?: 'number' | 'bigint';
  /**
   * Number of concurrent write connections to PostgreSQL; writers then lock the rows that they decide about. Default: one
   * writer at a time over all processes.
   */
  readonly maxWriters?: number;
  /** Cache prepared statements: for a few statements that run thousands of times a second. */
  readonly cacheStatements?: boolean;
  /**
   * Sync SQLite commits to the disk in another thread, so that this one can serve other requests meanwhile. A commit is
   * durable when `commit` resolves, and reads never return rows that are not durable.
   */
  readonly syncInBackground?: boolean;
}

/** Kysely's driver for either database. */
function createKyselyDriver(connections: ConnectionPool): Driver {
  const asConnection = (connection: DatabaseConnection) => connection as Connection;
  return {
    init: () => Promise.resolve(),
    acquireConnection: () => connections.acquire(),
    beginTransaction: (connection) => asConnection(connection).begin(),
    commitTransaction: (connection) => asConnection(connection).commit(),
    rollbackTransaction: (connection) => asConnection(connection).rollback(),
    releaseConnection: (connection) => Promise.resolve(asConnection(connection).release()),
    // The store closes its own pools.
    destroy: () => Promise.resolve(),
  };
}

export function createDialect(kind: Database['kind'], connections: ConnectionPool): Dialect {
  const createDriver = () => createKyselyDriver(connections);
  if (kind === 'sqlite')
    return {
      createDriver,
      createAdapter: () => new SqliteAdapter(),
      createQueryCompiler: () => new SqliteQueryCompiler(),
      createIntrospector: (db: Kysely<unknown>) => new SqliteIntrospector(db),
    };
  return {
    createDriver,
    createAdapter: () => new PostgresAdapter(),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createIntrospector: (db: Kysely<unknown>) => new PostgresIntrospector(db),
  };
}

/** Replaces NUL in texts with U+FFFD, because PostgreSQL cannot store it. */
export const toStorableParameters = (parameters: readonly unknown[]): readonly unknown[] =>
  parameters.some(hasNul)
    ? parameters.map((value) => (hasNul(value) ? value.replaceAll('\0', '\uFFFD') : value))
    : parameters;

const hasNul = (value: unknown): value is string => typeof value === 'string' && value.includes('\0');

/** Streaming is not supported: long lists are read in batches, so that a slow reader holds no connection. */
export const rejectStreaming = (): never => {
  throw new Error('the store does not stream rows; read them in batches');
};
