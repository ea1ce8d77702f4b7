import type { QueryResult } from 'kysely';
import type { Connection, Database } from '../../store/index.ts';
import { type Columns, columns, type RowOf, type TableName } from './tables.ts';

interface StatementResult<R> {
  readonly rows: R[];
  readonly changed: number;
}

/** A statement that runs for a list of rows. An empty list runs nothing. */
export type Statement<C extends Columns, R = never> = (
  connection: Connection,
  given: readonly RowOf<C>[],
) => StatementResult<R> | Promise<StatementResult<R>>;

/** One statement of a combined change. */
export interface ChangePart<C extends Columns> {
  readonly given: C;
  readonly text: string;
}

/** @returns the number of rows that each part changed */
type Change<P extends ChangeParts> = (
  connection: Connection,
  given: { readonly [K in keyof P]: readonly RowOf<P[K]['given']>[] },
) => Counts<P> | Promise<Counts<P>>;
type ChangeParts = Readonly<Record<string, ChangePart<Columns>>>;
type Counts<P extends ChangeParts> = { readonly [K in keyof P]: number };

/**
 * Creates statements that take a list of rows. Each is written once for both databases. PostgreSQL reads all rows from one
 * JSON parameter, so the number of round trips does not depend on the number of rows. SQLite, which has no round trips,
 * runs the statement once per row; this takes a fifth of the time.
 */
export interface Statements {
  /**
   * Placeholders in the text: `{given}` is the list of rows, as a table of that name with the given columns; it follows
   * `from`, `using` or a comma, which are removed for SQLite. `given.name` is a column of a row. `{lock name}` locks the
   * rows of a table.
   */
  readonly prepare: <C extends Columns, R = never>(given: C, text: string) => Statement<C, R>;
  /** Combines several statements, each with its own rows. On PostgreSQL they run as one statement. */
  readonly prepareChange: <P extends ChangeParts>(parts: P) => Change<P>;
}

/** An insert of all columns of a table. @param conflict clause such as `on conflict do nothing` */
export function insertInto<T extends TableName>(table: T, conflict = ''): ChangePart<(typeof columns)[T]> {
  const names = Object.keys(columns[table]);
  const values = names.map((name) => `given.${name}`).join(', ');
  // Without `where`, SQLite would parse `on` as a join condition.
  const text = `insert into ${table} (${names.join(', ')}) select ${values} from {given} where true ${conflict}`;
  return { given: columns[table], text };
}

export const statementsOf = (kind: Database['kind']): Statements => (kind === 'postgres' ? postgres : sqlite);

const postgres: Statements = {
  prepare: (given, text) => {
    const sql = expandForPostgres(text, given, 1);
    return (connection, rows) => (rows.length === 0 ? emptyResult : run(connection, sql, [encode(rows)]));
  },
  prepareChange: <P extends ChangeParts>(parts: P): Change<P> => {
    const names = Object.keys(parts);
    const steps = Object.entries(parts).map(
      ([name, { given, text }], index) =>
        `${name} as (${expandForPostgres(text, given, index + 1)} returning 1)`,
    );
    const counts = names.map((name) => `(select count(*) from ${name}) as ${name}`);
    const sql = `with ${steps.join(', ')} select ${counts.join(', ')}`;
    return async (connection, given) => {
      if (names.every((name) => given[name]?.length === 0)) return zeroCounts(names) as never;
      const parameters = names.map((name) => encode(given[name] ?? []));
      const { rows } = await run<Record<string, bigint>>(connection, sql, parameters);
      return Object.fromEntries(names.map((name) => [name, Number(rows[0]?.[name])])) as never;
    };
  },
};

const sqlite: Statements = {
  prepare: perRowStatement,
  prepareChange: <P extends ChangeParts>(parts: P): Change<P> => {
    const steps = Object.entries(parts).map(([name, part]) => ({
      name,
      step: perRowStatement(part.given, part.text),
    }));
    return (connection, given) => {
      const changed: Record<string, number> = {};
      for (const { name, step } of steps) changed[name] = step(connection, given[name] ?? []).changed;
      return changed as never;
    };
  },
};

function perRowStatement<C extends Columns, R = never>(given: C, text: string) {
  const names = Object.keys(given);
  const sql = expandForSqlite(text, names);
  return (connection: Connection, rows: readonly RowOf<C>[]): StatementResult<R> => {
    const results: StatementResult<R>[] = [];
    for (const row of rows) {
      const values = names.map((name) => toStorable(row[name]));
      // SQLite returns its result synchronously.
      results.push(toStatementResult(connection.run(sql, values) as QueryResult<R>));
    }
    const [single = emptyResult] = results;
    if (results.length < 2) return single;
    return {
      rows: results.flatMap(({ rows: some }) => some),
      changed: results.reduce((sum, { changed }) => sum + changed, 0),
    };
  };
}

const emptyResult = { rows: [], changed: 0 };
const zeroCounts = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 0]));

const run = async <R>(
  connection: Connection,
  sql: string,
  parameters: readonly unknown[],
): Promise<StatementResult<R>> => toStatementResult(await connection.run<R>(sql, parameters));

const toStatementResult = <R>({ rows, numAffectedRows = 0n }: QueryResult<R>): StatementResult<R> => ({
  rows,
  changed: Number(numAffectedRows),
});

function expandForPostgres(text: string, given: Columns, parameter: number): string {
  const list = Object.entries(given).map(
    ([name, type]) => `${name} ${type.startsWith('integer') ? 'bigint' : 'text'}`,
  );
  return text
    .replaceAll('{given}', `json_to_recordset($${parameter}::json) as given(${list.join(', ')})`)
    .replaceAll(/\{lock (\w+)\}/g, 'for update of $1');
}

const expandForSqlite = (text: string, names: readonly string[]): string =>
  text
    .replaceAll(/(?:,|\bfrom|\busing)\s+\{given\}/g, '')
    .replaceAll(/\{lock \w+\}/g, '')
    .replaceAll(/\bgiven\.(\w+)/g, (_, name: string) => `?${names.indexOf(name) + 1}`);

const encode = (rows: readonly Readonly<Record<string, string | bigint | null>>[]): string =>
  JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : toStorable(value),
  );

const toStorable = (value: unknown): unknown => (typeof value === 'string' ? toStorableText(value) : value);

/** Makes a text storable: PostgreSQL rejects NUL and lone surrogates, also as JSON escapes. They become U+FFFD. */
export const toStorableText = (text: string): string =>
  text.includes('\0') ? text.toWellFormed().replaceAll('\0', '\uFFFD') : text.toWellFormed();
