import pg from 'pg';
import { describeServer } from '../../store/postgres.ts';
import { explainPostgres, isConnectionLost } from '../../store/postgres-errors.ts';
import { raceTimeout } from '../../util/race-timeout.ts';
import { ObserveError } from '../errors.ts';
import { ConcurrencyLimiter } from '../concurrency-limiter.ts';
import type { CompiledQuery, Reader } from '../types.ts';
import { databaseClosed, queryTimeout, unavailable } from './errors.ts';
import { toJsonInteger, RowCollector } from './row-collector.ts';

const maxConcurrent = 2;
const maxWaiting = 32;
/** Time after the end of a statement's budget at which a silent server is given up. */
const graceMs = 250;
const queryCanceled = '57014';

const { builtins, getTypeParser } = pg.types;
const parsers: Readonly<Record<number, (text: string) => unknown>> = {
  [builtins.INT8]: (text) => toJsonInteger(BigInt(text)),
  // Sums of integers and averages. Only sums exceed 2^53.
  [builtins.NUMERIC]: (text) => (/^-?\d+$/.test(text) ? toJsonInteger(BigInt(text)) : Number(text)),
};
const types: pg.CustomTypesConfig = {
  getTypeParser: (id, format) => parsers[id] ?? getTypeParser(id, format),
};

/**
 * Starts a read-only transaction. After its first statement it cannot be made writable. A cursor accepts only
 * statements that return rows.
 */
const beginStatement = (budgetMs: number) =>
  [
    'begin read only',
    `set local statement_timeout = ${budgetMs}`,
    'set local cursor_tuple_fraction = 1',
    'select 1',
  ].join('; ');

/** Reader for PostgreSQL with its own connections. */
export class PostgresReader implements Reader {
  readonly kind = 'postgres';
  readonly #serverName: string;
  readonly #pool: pg.Pool;
  readonly #limiter = new ConcurrencyLimiter({ maxConcurrent, maxWaiting });
  readonly #knownTables = new Set<string>();

  /** @throws StoreError if the URL is not valid */
  constructor(url: string) {
    this.#serverName = describeServer(url);
    this.#pool = new pg.Pool({
      connectionString: url,
      application_name: 'lathe observe',
      max: maxConcurrent,
      types,
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      allowExitOnIdle: true,
    });
    // Idle connections that break are ignored; the next statement opens a new one.
    this.#pool.on('error', () => undefined);
    this.#pool.on('connect', (client) => client.on('error', () => undefined));
  }

  read(
    { sql, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>,
    { budgetMs }: { readonly budgetMs: number },
  ): Promise<Record<string, unknown>[]> {
    return this.#limiter.run(async () => {
      if (this.#pool.ending) throw databaseClosed();
      const client = await this.#connect(budgetMs + graceMs);
      const timer = setTimeout(() => void client.end(), budgetMs + graceMs);
      const begun = performance.now();
      let lost = false;
      try {
        await client.query(beginStatement(Math.max(1, Math.ceil(budgetMs))));
        await client.query(cursorQuery(sql, parameters));
        const rows = await fetchRows(client);
        await client.query('commit');
        return rows;
      } catch (error) {
        // Do not wait for the rest of the result.
        lost = error instanceof ObserveError || isConnectionLost(error) || !(await tryRollback(client));
        if (error instanceof ObserveError) throw error;
        const isLate = performance.now() - begun >= budgetMs;
        if ((error as { code?: string }).code === queryCanceled || (lost && isLate))
          throw queryTimeout(budgetMs);
        throw this.#toObserveError(error);
      } finally {
        clearTimeout(timer);
        client.release(lost);
      }
    });
  }

  async has(tables: readonly string[]): Promise<boolean> {
    const unknown = tables.filter((table) => !this.#knownTables.has(table));
    if (unknown.length === 0) return true;
    const rows = await this.read(
      {
        sql: 'select name from json_array_elements_text($1::json) as requested(name) where to_regclass(quote_ident(name)) is not null',
        parameters: [JSON.stringify(unknown)],
      },
      { budgetMs: 1000 },
    );
    for (const { name } of rows) this.#knownTables.add(String(name));
    return rows.length === unknown.length;
  }

  /** Connects with the time limit of a statement, because a hanging server accepts connections and does not respond. */
  async #connect(timeoutMs: number): Promise<pg.PoolClient> {
    const connecting = this.#pool.connect();
    try {
      const client = await raceTimeout(connecting, timeoutMs);
      if (client !== 'late') return client;
    } catch (error) {
      throw this.#toObserveError(error);
    }
    connecting.then(
      (client) => client.release(),
      () => undefined,
    );
    throw unavailable(
      `the ${this.#serverName} did not accept a connection within ${Math.round(timeoutMs)} ms`,
    );
  }

  #toObserveError(error: unknown): ObserveError {
    return unavailable(explainPostgres(error, this.#serverName).message, error);
  }

  async close(): Promise<void> {
    if (!this.#pool.ending) await this.#pool.end();
  }
}

/** Uses the extended protocol, which accepts a single statement only. The simple protocol would accept several. */
const cursorQuery = (sql: string, parameters: readonly unknown[]) => {
  const cursor: pg.QueryConfig & { queryMode: 'extended' } = {
    text: `declare answer no scroll cursor for ${sql}`,
    values: [...parameters],
    queryMode: 'extended',
  };
  return cursor;
};

/** Measures rows as they arrive, so that an oversized result is aborted early. */
async function fetchRows(client: pg.PoolClient): Promise<Record<string, unknown>[]> {
  const rows = new RowCollector();
  await new Promise<void>((resolve, reject) => {
    const query = client.query(new pg.Query('fetch all from answer'));
    let isTooLarge = false;
    query.on('row', (row: Record<string, unknown>) => {
      if (isTooLarge) return;
      try {
        rows.add(row);
      } catch (error) {
        isTooLarge = true;
        reject(error);
      }
    });
    query.on('end', () => resolve());
    query.on('error', reject);
  });
  return rows.all;
}

async function tryRollback(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('rollback');
    return true;
  } catch {
    return false;
  }
}
