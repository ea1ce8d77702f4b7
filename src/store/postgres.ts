import type { CompiledQuery, QueryResult } from 'kysely';
import pg from 'pg';
import { sleep } from '../util/sleep.ts';
import {
  type Connection,
  type ConnectionPool,
  type Database,
  type DatabaseOptions,
  rejectStreaming,
  toStorableParameters,
} from './dialect.ts';
import { StoreError } from './errors.ts';
import { explainPostgres, isConnectionLost } from './postgres-errors.ts';

/** Parses `bigint`, which the driver returns as text: counts fit a `number`, amounts of money do not. */
const { builtins, getTypeParser } = pg.types;
const createTypeParsers = (integer: (text: string) => number | bigint): pg.CustomTypesConfig => ({
  getTypeParser: (id, format) => (id === builtins.INT8 ? integer : getTypeParser(id, format)),
});

/** Limit of read connections. */
const maxReadConnections = 6;

/**
 * Writers hold one advisory lock that all hosts on this schema share, so transactions run one at a time, as in SQLite.
 * The transaction of a host that loses its connection is aborted after a minute.
 */
const writeLock = "select pg_advisory_xact_lock(1818326120, hashtext(coalesce(current_schema(), '')))";
const beginStatement = (locks: readonly string[]): string =>
  [
    'begin',
    "set local lock_timeout = '20s'",
    "set local idle_in_transaction_session_timeout = '60s'",
    ...locks,
    // The id with which the outcome can be queried if the connection is lost during the commit.
    'select txid_current() as xact',
  ].join('; ');

/** Time limit for querying the outcome of a commit whose connection was lost, in ms. */
const outcomeTimeoutMs = 10_000;

/** Opens a pool of connections. @param onIdleError called when an idle connection breaks */
export function openPostgres(
  url: string,
  onIdleError: (error: StoreError) => void,
  { integerType = 'number', maxWriters, cacheStatements = false }: DatabaseOptions = {},
): Database {
  const serverDescription = describeServer(url);
  const types = createTypeParsers(integerType === 'bigint' ? BigInt : Number);
  const begin = beginStatement(maxWriters === undefined ? [writeLock] : []);
  const statementNameOf = cacheStatements ? createStatementNames() : () => undefined;
  const connections = (max: number): ConnectionPool => {
    const pool = new pg.Pool({
      connectionString: url,
      application_name: 'lathe',
      max,
      // A server whose disk is full answers on the connections that it has, and accepts no others.
      min: 1,
      types,
      connectionTimeoutMillis: 10_000,
      // For a server that disappears without closing the connection.
      query_timeout: 60_000,
      keepAlive: true,
    });
    const onPoolError = (error: unknown) => onIdleError(explainPostgres(error, serverDescription));
    pool.on('error', onPoolError);
    // Without a listener, losing a connection between two statements would end the process. The next statement fails.
    pool.on('connect', (client) => client.on('error', () => undefined));
    return {
      async acquire() {
        try {
          return new PostgresConnection(await pool.connect(), {
            serverDescription,
            begin,
            statementNameOf,
            queryCommitOutcome: (transactionId) => queryCommitOutcome(url, transactionId),
          });
        } catch (error) {
          throw explainPostgres(error, serverDescription);
        }
      },
      close: () => pool.end(),
    };
  };
  return {
    kind: 'postgres',
    readPool: connections(maxReadConnections),
    writePool: connections(maxWriters ?? 1),
    sync: () => Promise.resolve(),
  };
}

/** Describes the server by host, port and database, without the password. @throws StoreError for an invalid URL */
export function describeServer(url: string): string {
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return `PostgreSQL database "${database ?? ''}" at ${host}:${port}`;
  } catch (error) {
    // The cause is left out, because it holds the URL with the password.
    throw new StoreError(
      'storage_failed',
      `the URL of the PostgreSQL database cannot be read (${(error as Error).message}): write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in the password`,
    );
  }
}

/** Queries the outcome of a transaction whose connection was lost; undefined if the server does not answer in time. */
async function queryCommitOutcome(
  url: string,
  transactionId: number,
): Promise<'committed' | 'aborted' | undefined> {
  const startedAt = performance.now();
  for (
    let delayMs = 20;
    performance.now() - startedAt < outcomeTimeoutMs;
    delayMs = Math.min(delayMs * 2, 500)
  ) {
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: 2000,
      query_timeout: 2000,
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query<{ fate: string | null }>('select txid_status($1) as fate', [
        transactionId,
      ]);
      const fate = rows[0]?.fate;
      if (fate === 'committed' || fate === 'aborted') return fate;
    } catch {
      // The server may be restarting.
    } finally {
      client.end().catch(() => undefined);
    }
    await sleep(delayMs);
  }
  return undefined;
}

/** Settings shared by the connections of a database. */
interface ConnectionSettings {
  /** Description of the server. */
  readonly serverDescription: string;
  readonly begin: string;
  /** Name of a prepared statement; undefined if it is not kept. */
  readonly statementNameOf: (sql: string) => string | undefined;
  readonly queryCommitOutcome: (transactionId: number) => ReturnType<typeof queryCommitOutcome>;
}

/** Limit of prepared statements on a connection; others are planned for every use. */
const maxPreparedStatements = 200;

function createStatementNames(): (sql: string) => string | undefined {
  const names = new Map<string, string>();
  return (sql) => {
    const existing = names.get(sql);
    if (existing !== undefined || names.size >= maxPreparedStatements) return existing;
    const name = `lathe_${names.size}`;
    names.set(sql, name);
    return name;
  };
}

class PostgresConnection implements Connection {
  readonly #client: pg.PoolClient;
  readonly #serverDescription: string;
  readonly #begin: string;
  readonly #statementNameOf: ConnectionSettings['statementNameOf'];
  readonly #queryCommitOutcome: ConnectionSettings['queryCommitOutcome'];
  /** The id of the open transaction. */
  #transactionId = 0;
  /** The connection must not be reused. */
  #isLost = false;

  readonly streamQuery = rejectStreaming;

  constructor(
    client: pg.PoolClient,
    { serverDescription, begin, statementNameOf, queryCommitOutcome: queryOutcome }: ConnectionSettings,
  ) {
    this.#client = client;
    this.#serverDescription = serverDescription;
    this.#begin = begin;
    this.#statementNameOf = statementNameOf;
    this.#queryCommitOutcome = queryOutcome;
  }

  executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    return this.run(sql, parameters);
  }

  async run<R>(sql: string, parameters: readonly unknown[]): Promise<QueryResult<R>> {
    const { command, rowCount, rows } = await this.#query(
      sql,
      [...toStorableParameters(parameters)],
      this.#statementNameOf(sql),
    );
    const changes = command !== 'SELECT' && rowCount !== null;
    return { rows: rows as R[], ...(changes ? { numAffectedRows: BigInt(rowCount) } : {}) };
  }

  async begin(): Promise<void> {
    try {
      // A query of several statements returns a list of results.
      const results = (await this.#query(this.#begin)) as unknown as pg.QueryResult<{ xact: number }>[];
      this.#transactionId = Number(results.at(-1)?.rows[0]?.xact);
    } catch (error) {
      await this.rollback();
      throw error;
    }
  }

  async commit(): Promise<void> {
    let command: string;
    try {
      ({ command } = await this.#client.query('commit'));
    } catch (error) {
      this.#isLost ||= isConnectionLost(error);
      if (!this.#isLost) throw explainPostgres(error, this.#serverDescription);
      const outcome = await this.#queryCommitOutcome(this.#transactionId);
      if (outcome === 'committed') return;
      if (outcome === 'aborted')
        throw new StoreError(
          'storage_failed',
          `the connection to the ${this.#serverDescription} was lost before the changes were saved`,
          { cause: error, isRetryable: true },
        );
      throw new StoreError(
        'storage_unsure',
        `the connection to the ${this.#serverDescription} was lost while the changes were being saved: check whether they were saved before you retry`,
        { cause: error },
      );
    }
    // PostgreSQL answers COMMIT with ROLLBACK if a statement of the transaction failed.
    if (command === 'ROLLBACK')
      throw new StoreError('storage_failed', 'the transaction was rolled back, because a part of it failed');
  }

  async rollback(): Promise<void> {
    if (this.#isLost) return;
    try {
      await this.#client.query('rollback');
    } catch {
      this.#isLost = true;
    }
  }

  release(): void {
    this.#client.release(this.#isLost);
  }

  async #query(text: string, values?: unknown[], name?: string): Promise<pg.QueryResult> {
    try {
      return await this.#client.query({
        text,
        ...(values ? { values } : {}),
        ...(name === undefined ? {} : { name }),
      });
    } catch (error) {
      this.#isLost ||= isConnectionLost(error);
      throw explainPostgres(error, this.#serverDescription);
    }
  }
}
