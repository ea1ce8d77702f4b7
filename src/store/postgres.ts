import type { CompiledQuery, QueryResult } from 'kysely';
import pg from 'pg';
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
import { explainPostgres, isLost } from './postgres-errors.ts';

/** Parses `bigint`, which the driver returns as text: counts fit a `number`, amounts of money do not. */
const { builtins, getTypeParser } = pg.types;
const typesWith = (integer: (text: string) => number | bigint): pg.CustomTypesConfig => ({
  getTypeParser: (id, format) => (id === builtins.INT8 ? integer : getTypeParser(id, format)),
});

/** Limit of read connections. */
const mostReading = 6;

/**
 * Writers hold one advisory lock that all hosts on this schema share, so transactions run one at a time, as in SQLite.
 * The transaction of a host that loses its connection is aborted after a minute.
 */
const lock = "select pg_advisory_xact_lock(1818326120, hashtext(coalesce(current_schema(), '')))";
const beginWith = (locks: readonly string[]): string =>
  [
    'begin',
    "set local lock_timeout = '20s'",
    "set local idle_in_transaction_session_timeout = '60s'",
    ...locks,
    // The id with which the outcome can be queried if the connection is lost during the commit.
    'select txid_current() as xact',
  ].join('; ');

/** Time limit for querying the outcome of a commit whose connection was lost, in ms. */
const fatePatience = 10_000;

/** Opens a pool of connections. @param onIdleError called when an idle connection breaks */
export function openPostgres(
  url: string,
  onIdleError: (error: StoreError) => void,
  { integers = 'number', writers, keepStatements = false }: DatabaseOptions = {},
): Database {
  const where = describeServer(url);
  const types = typesWith(integers === 'bigint' ? BigInt : Number);
  const begin = beginWith(writers === undefined ? [lock] : []);
  const nameOf = keepStatements ? statementNames() : () => undefined;
  const connections = (max: number): Connections => {
    const pool = new pg.Pool({
      connectionString: url,
      application_name: 'lathe',
      max,
      types,
      connectionTimeoutMillis: 10_000,
      // For a server that disappears without closing the connection.
      query_timeout: 60_000,
      keepAlive: true,
    });
    const heard = (error: unknown) => onIdleError(explainPostgres(error, where));
    pool.on('error', heard);
    // Without a listener, losing a connection between two statements would end the process. The next statement fails.
    pool.on('connect', (client) => client.on('error', () => undefined));
    return {
      async acquire() {
        try {
          return new PostgresConnection(await pool.connect(), {
            where,
            begin,
            nameOf,
            fateOf: (xact) => fateOf(url, xact),
          });
        } catch (error) {
          throw explainPostgres(error, where);
        }
      },
      close: () => pool.end(),
    };
  };
  return { kind: 'postgres', reading: connections(mostReading), writing: connections(writers ?? 1) };
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
async function fateOf(url: string, xact: number): Promise<'committed' | 'aborted' | undefined> {
  const begun = performance.now();
  for (let wait = 20; performance.now() - begun < fatePatience; wait = Math.min(wait * 2, 500)) {
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: 2000,
      query_timeout: 2000,
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query<{ fate: string | null }>('select txid_status($1) as fate', [xact]);
      const fate = rows[0]?.fate;
      if (fate === 'committed' || fate === 'aborted') return fate;
    } catch {
      // The server may be restarting.
    } finally {
      client.end().catch(() => undefined);
    }
    await pause(wait);
  }
  return undefined;
}

/** Settings shared by the connections of a database. */
interface Ways {
  /** Description of the server. */
  readonly where: string;
  readonly begin: string;
  /** Name of a prepared statement; undefined if it is not kept. */
  readonly nameOf: (sql: string) => string | undefined;
  readonly fateOf: (xact: number) => ReturnType<typeof fateOf>;
}

/** Limit of prepared statements on a connection; others are planned for every use. */
const mostKept = 200;

function statementNames(): (sql: string) => string | undefined {
  const names = new Map<string, string>();
  return (sql) => {
    const known = names.get(sql);
    if (known !== undefined || names.size >= mostKept) return known;
    const name = `lathe_${names.size}`;
    names.set(sql, name);
    return name;
  };
}

class PostgresConnection implements Connection {
  readonly #client: pg.PoolClient;
  readonly #where: string;
  readonly #begin: string;
  readonly #nameOf: Ways['nameOf'];
  readonly #fateOf: Ways['fateOf'];
  /** The id of the open transaction. */
  #xact = 0;
  /** The connection must not be reused. */
  #lost = false;

  readonly streamQuery = noStreams;

  constructor(client: pg.PoolClient, { where, begin, nameOf, fateOf: fate }: Ways) {
    this.#client = client;
    this.#where = where;
    this.#begin = begin;
    this.#nameOf = nameOf;
    this.#fateOf = fate;
  }

  executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    return this.run(sql, parameters);
  }

  async run<R>(sql: string, parameters: readonly unknown[]): Promise<QueryResult<R>> {
    const { command, rowCount, rows } = await this.#query(sql, storable(parameters), this.#nameOf(sql));
    const changes = command !== 'SELECT' && rowCount !== null;
    return { rows: rows as R[], ...(changes ? { numAffectedRows: BigInt(rowCount) } : {}) };
  }

  async begin(): Promise<void> {
    try {
      // A query of several statements returns a list of results.
      const results = (await this.#query(this.#begin)) as unknown as pg.QueryResult<{ xact: number }>[];
      this.#xact = Number(results.at(-1)?.rows[0]?.xact);
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
      this.#lost ||= isLost(error);
      if (!this.#lost) throw explainPostgres(error, this.#where);
      const fate = await this.#fateOf(this.#xact);
      if (fate === 'committed') return;
      if (fate === 'aborted')
        throw new StoreError(
          'storage_failed',
          `the connection to the ${this.#where} was lost before the changes were saved`,
          { cause: error, again: true },
        );
      throw new StoreError(
        'storage_unsure',
        `the connection to the ${this.#where} was lost while the changes were being saved: check whether they were saved before you retry`,
        { cause: error },
      );
    }
    // PostgreSQL answers COMMIT with ROLLBACK if a statement of the transaction failed.
    if (command === 'ROLLBACK')
      throw new StoreError('storage_failed', 'the transaction was rolled back, because a part of it failed');
  }

  async rollback(): Promise<void> {
    if (this.#lost) return;
    try {
      await this.#client.query('rollback');
    } catch {
      this.#lost = true;
    }
  }

  release(): void {
    this.#client.release(this.#lost);
  }

  async #query(text: string, values?: unknown[], name?: string): Promise<pg.QueryResult> {
    try {
      return await this.#client.query({
        text,
        ...(values ? { values } : {}),
        ...(name === undefined ? {} : { name }),
      });
    } catch (error) {
      this.#lost ||= isLost(error);
      throw explainPostgres(error, this.#where);
    }
  }
}
