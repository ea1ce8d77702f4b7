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

/** What one connection can do, in either database. */
export interface Connection extends DatabaseConnection {
  /** As `executeQuery`, within a transaction; at once in SQLite, where a promise costs as much as a statement. */
  run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> | Promise<QueryResult<R>>;
  /** From here on nobody else writes, in no other process either, until `commit` or `rollback`. */
  begin(): Promise<void>;
  /** @param here on the disk by this thread, which waits, if the disk is quick: cheaper where there is nothing else to do meanwhile */
  commit(here?: boolean): Promise<void>;
  /** Never rejects: a connection that cannot roll back is given up, and the database does it. */
  rollback(): Promise<void>;
  release(): void;
}

/** Where connections come from. */
export interface Connections {
  acquire(): Promise<Connection>;
  close(): Promise<void>;
}

/** The two ways to a database: reading goes on while something is written. */
export interface Database {
  readonly kind: 'sqlite' | 'postgres';
  readonly reading: Connections;
  /** One at a time: who asks for a second one before the first is released may wait for ever. */
  readonly writing: Connections;
}

/** What is not as the store of the agent plane has it. */
export interface DatabaseOptions {
  /** As what whole numbers are read: counts fit a `number`, money does not. */
  readonly integers?: 'number' | 'bigint';
  /**
   * So many connections write at once to PostgreSQL, in this process and in others: who writes locks the rows that it
   * decides about. Otherwise one connection of all processes writes at a time.
   */
  readonly writers?: number;
  /** Prepared statements are kept: for few statements that come thousands of times a second. */
  readonly keepStatements?: boolean;
  /**
   * SQLite's commits come to the disk from another thread: this one goes on meanwhile, for who has to answer others. They
   * are there when `commit` resolves, as ever, and nothing that is not there yet is read.
   */
  readonly syncApart?: boolean;
}

/** Statements of either database, one after the other, as Kysely's driver. */
function driverOf(connections: Connections): Driver {
  const ours = (connection: DatabaseConnection) => connection as Connection;
  return {
    init: () => Promise.resolve(),
    acquireConnection: () => connections.acquire(),
    beginTransaction: (connection) => ours(connection).begin(),
    commitTransaction: (connection) => ours(connection).commit(),
    rollbackTransaction: (connection) => ours(connection).rollback(),
    releaseConnection: (connection) => Promise.resolve(ours(connection).release()),
    // The store closes what it opened.
    destroy: () => Promise.resolve(),
  };
}

export function dialectOf(kind: Database['kind'], connections: Connections): Dialect {
  const createDriver = () => driverOf(connections);
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

/** PostgreSQL keeps no NUL in a text. Neither does anything that shows one, so it becomes what other non-texts become. */
export const storable = (parameters: readonly unknown[]): unknown[] =>
  parameters.map((value) =>
    typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value,
  );

/** Nobody streams: long lists are read in batches, so that a slow reader holds no connection. */
export const noStreams = (): never => {
  throw new Error('read in batches: the store streams no rows');
};
