import pg from 'pg';
import { describeServer } from '../../store/postgres.ts';
import { explainPostgres, isLost } from '../../store/postgres-errors.ts';
import { raceTimeout } from '../../util/race-timeout.ts';
import { ObserveError } from '../errors.ts';
import { Turns } from '../turns.ts';
import type { Compiled, Reader } from '../types.ts';
import { closed, overBudget, unreadable } from './failures.ts';
import { plain, Rows } from './rows.ts';

const atOnce = 2;
const mostWaiting = 32;
/** For a server that goes away without a word: how long after the end of a statement's time it is given up, in ms. */
const grace = 250;
const cancelled = '57014';

const { builtins, getTypeParser } = pg.types;
const parsers: Readonly<Record<number, (text: string) => unknown>> = {
  [builtins.INT8]: (text) => plain(BigInt(text)),
  // Sums of whole numbers and averages. Beyond 2^53 only sums are.
  [builtins.NUMERIC]: (text) => (/^-?\d+$/.test(text) ? plain(BigInt(text)) : Number(text)),
};
const types: pg.CustomTypesConfig = {
  getTypeParser: (id, format) => parsers[id] ?? getTypeParser(id, format),
};

/**
 * The transaction may write nothing, which no statement can change once there was one. A cursor takes nothing but what
 * gives rows.
 */
const beginWith = (budgetMs: number) =>
  [
    'begin read only',
    `set local statement_timeout = ${budgetMs}`,
    'set local cursor_tuple_fraction = 1',
    'select 1',
  ].join('; ');

/** Reads PostgreSQL on connections of its own. */
export class PostgresReader implements Reader {
  readonly kind = 'postgres';
  readonly #where: string;
  readonly #pool: pg.Pool;
  readonly #turns = new Turns({ atOnce, mostWaiting });
  readonly #known = new Set<string>();

  /** @throws StoreError where the URL is none */
  constructor(url: string) {
    this.#where = describeServer(url);
    this.#pool = new pg.Pool({
      connectionString: url,
      application_name: 'lathe observe',
      max: atOnce,
      types,
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      allowExitOnIdle: true,
    });
    // Of connections that break while nobody uses them: the next statement makes a new one.
    this.#pool.on('error', () => undefined);
    this.#pool.on('connect', (client) => client.on('error', () => undefined));
  }

  read(
    { sql, parameters }: Pick<Compiled, 'sql' | 'parameters'>,
    { budgetMs }: { readonly budgetMs: number },
  ): Promise<Record<string, unknown>[]> {
    return this.#turns.take(async () => {
      if (this.#pool.ending) throw closed();
      const client = await this.#connect(budgetMs + grace);
      const timer = setTimeout(() => void client.end(), budgetMs + grace);
      const begun = performance.now();
      let lost = false;
      try {
        await client.query(beginWith(Math.max(1, Math.ceil(budgetMs))));
        await client.query(cursorFor(sql, parameters));
        const rows = await fetchAll(client);
        await client.query('commit');
        return rows;
      } catch (error) {
        // What is still on its way is not waited for.
        lost = error instanceof ObserveError || isLost(error) || !(await rolledBack(client));
        if (error instanceof ObserveError) throw error;
        const isLate = performance.now() - begun >= budgetMs;
        if ((error as { code?: string }).code === cancelled || (lost && isLate)) throw overBudget(budgetMs);
        throw this.#explain(error);
      } finally {
        clearTimeout(timer);
        client.release(lost);
      }
    });
  }

  async has(tables: readonly string[]): Promise<boolean> {
    const unknown = tables.filter((table) => !this.#known.has(table));
    if (unknown.length === 0) return true;
    const rows = await this.read(
      {
        sql: 'select name from json_array_elements_text($1::json) as asked(name) where to_regclass(quote_ident(name)) is not null',
        parameters: [JSON.stringify(unknown)],
      },
      { budgetMs: 1000 },
    );
    for (const { name } of rows) this.#known.add(String(name));
    return rows.length === unknown.length;
  }

  /** A server that hangs takes connections and says nothing: nobody waits longer for one than for an answer. */
  async #connect(patienceMs: number): Promise<pg.PoolClient> {
    const connecting = this.#pool.connect();
    try {
      const client = await raceTimeout(connecting, patienceMs);
      if (client !== 'late') return client;
    } catch (error) {
      throw this.#explain(error);
    }
    connecting.then(
      (client) => client.release(),
      () => undefined,
    );
    throw unreadable(`the ${this.#where} took no connection within ${Math.round(patienceMs)} ms`);
  }

  #explain(error: unknown): ObserveError {
    return unreadable(explainPostgres(error, this.#where).message, error);
  }

  async close(): Promise<void> {
    if (!this.#pool.ending) await this.#pool.end();
  }
}

/** In the protocol that takes one statement only: the other, which is usual without parameters, would take several. */
const cursorFor = (sql: string, parameters: readonly unknown[]) => {
  const cursor: pg.QueryConfig & { queryMode: 'extended' } = {
    text: `declare answer no scroll cursor for ${sql}`,
    values: [...parameters],
    queryMode: 'extended',
  };
  return cursor;
};

/** Rows are counted as they come: a large answer is given up before it is all here. */
async function fetchAll(client: pg.PoolClient): Promise<Record<string, unknown>[]> {
  const rows = new Rows();
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

async function rolledBack(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('rollback');
    return true;
  } catch {
    return false;
  }
}
