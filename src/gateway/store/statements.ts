import { CompiledQuery } from 'kysely';
import type { Connection, Database } from '../../store/index.ts';
import { type Columns, columns, type RowOf, type TableName } from './tables.ts';

interface Done<R> {
  readonly rows: R[];
  readonly changed: number;
}

/** A statement about many rows at once; none where there are none. */
export type Statement<C extends Columns, R = never> = (
  connection: Connection,
  given: readonly RowOf<C>[],
) => Promise<Done<R>>;

/** A part of a change, to be done with others. */
export interface Part<C extends Columns> {
  readonly given: C;
  readonly text: string;
  /** Where it is an insert. */
  readonly table?: TableName;
}

/** @returns how many rows each part changed */
type Change<P extends Parts> = (
  connection: Connection,
  given: { readonly [K in keyof P]: readonly RowOf<P[K]['given']>[] },
) => Promise<{ readonly [K in keyof P]: number }>;
type Parts = Readonly<Record<string, Part<Columns>>>;

/**
 * Statements that read their rows from one JSON parameter: the text is the same for one row and for a thousand, so that
 * it is prepared once, and a batch costs the same round trips whatever its size.
 */
export interface Statements {
  /** `{given}` stands for the rows, as a table with these columns and that name; `{lock}` for the locking of rows. */
  readonly write: <C extends Columns, R = never>(given: C, text: string) => Statement<C, R>;
  /** Parts about different rows: on PostgreSQL one statement for all of them. */
  readonly change: <P extends Parts>(parts: P) => Change<P>;
}

/** @param conflict as `on conflict do nothing` */
export function insertInto<T extends TableName>(table: T, conflict = ''): Part<(typeof columns)[T]> {
  const names = Object.keys(columns[table]).join(', ');
  // SQLite takes `on` for the beginning of a join's condition where there is no `where`.
  const text = `insert into ${table} (${names}) select ${names} from {given} where true ${conflict}`;
  return { given: columns[table], text, ...(conflict === '' ? { table } : {}) };
}

export const statementsOf = (kind: Database['kind']): Statements => (kind === 'postgres' ? postgres : sqlite);

const postgres: Statements = {
  write: (given, text) => {
    const query = CompiledQuery.raw(textOf(text, recordset(given, 1), 'for update'));
    return async (connection, rows) =>
      rows.length === 0 ? nothing : await run(connection, query, [encode(rows)]);
  },
  change: <P extends Parts>(parts: P): Change<P> => {
    const names = Object.keys(parts);
    const steps = Object.entries(parts).map(
      ([name, { given, text }], index) =>
        `${name} as (${textOf(text, recordset(given, index + 1), '')} returning 1)`,
    );
    const counts = names.map((name) => `(select count(*) from ${name}) as ${name}`);
    const query = CompiledQuery.raw(`with ${steps.join(', ')} select ${counts.join(', ')}`);
    return async (connection, given) => {
      if (names.every((name) => given[name]?.length === 0)) return none(names) as never;
      const parameters = names.map((name) => encode(given[name] ?? []));
      const { rows } = await run<Record<string, bigint>>(connection, query, parameters);
      return Object.fromEntries(names.map((name) => [name, Number(rows[0]?.[name])])) as never;
    };
  },
};

const sqlite: Statements = {
  write: (given, text) => {
    const query = CompiledQuery.raw(textOf(text, jsonEach(given), ''));
    return async (connection, rows) =>
      rows.length === 0 ? nothing : await run(connection, query, [encode(rows)]);
  },
  change: <P extends Parts>(parts: P): Change<P> => {
    const steps = Object.entries(parts).map(([name, part]) => ({
      name,
      step: part.table ? oneByOne(part.table) : sqlite.write(part.given, part.text),
    }));
    return async (connection, given) => {
      const changed: Record<string, number> = {};
      for (const { name, step } of steps)
        changed[name] = (await step(connection, (given[name] ?? []) as never)).changed;
      return changed as never;
    };
  },
};

/** In the same process there are no round trips to save, and reading wide rows out of JSON takes five times as long. */
function oneByOne<T extends TableName>(table: T): Statement<(typeof columns)[T]> {
  const names = Object.keys(columns[table]) as (keyof RowOf<(typeof columns)[T]>)[];
  const query = CompiledQuery.raw(
    `insert into ${table} (${names.join(', ')}) values (${names.map(() => '?').join(', ')})`,
  );
  return async (connection, rows) => {
    for (const row of rows) {
      const values = names.map((name) => row[name]);
      await run(
        connection,
        query,
        values.map((value) => (typeof value === 'string' ? keepable(value) : value)),
      );
    }
    return { rows: [], changed: rows.length };
  };
}

const nothing = { rows: [], changed: 0 };
const none = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 0]));

async function run<R>(
  connection: Connection,
  query: CompiledQuery,
  parameters: readonly unknown[],
): Promise<Done<R>> {
  const { rows, numAffectedRows } = await connection.executeQuery<R>({ ...query, parameters });
  return { rows, changed: Number(numAffectedRows ?? 0n) };
}

const textOf = (text: string, given: string, lock: string): string =>
  text.replaceAll('{given}', given).replaceAll('{lock}', lock);

const isInteger = (type: string) => type.startsWith('integer');

function recordset(given: Columns, parameter: number): string {
  const list = Object.entries(given).map(([name, type]) => `${name} ${isInteger(type) ? 'bigint' : 'text'}`);
  return `json_to_recordset($${parameter}::json) as given(${list.join(', ')})`;
}

function jsonEach(given: Columns): string {
  const list = Object.entries(given).map(([name, type]) =>
    isInteger(type) ? `cast(value ->> '${name}' as integer) as ${name}` : `value ->> '${name}' as ${name}`,
  );
  return `(select ${list.join(', ')} from json_each(?)) as given`;
}

const encode = (rows: readonly Readonly<Record<string, string | bigint | null>>[]): string =>
  JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : typeof value === 'string' ? keepable(value) : value,
  );

/** PostgreSQL keeps neither NUL nor half a character, also not where JSON writes them as escapes. */
export const keepable = (text: string): string => text.toWellFormed().replaceAll('\0', '\uFFFD');
