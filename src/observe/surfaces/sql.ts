import type { Sql } from '../types.ts';

/** SQL in each of the two dialects. */
export type DialectSql = Exclude<Sql, string>;

export const toDialectSql = (sql: Sql): DialectSql =>
  typeof sql === 'string' ? { sqlite: sql, postgres: sql } : sql;

/** Template tag that builds SQL from parts that may differ between the dialects. */
export function sqlTemplate(parts: TemplateStringsArray, ...values: readonly Sql[]): DialectSql {
  const render = (kind: keyof DialectSql) =>
    parts.map((part, n) => part + (n < values.length ? toDialectSql(values[n] ?? '')[kind] : '')).join('');
  return { sqlite: render('sqlite'), postgres: render('postgres') };
}

/** A constant text, compared by code points like the texts in tables. */
export const textLiteral = (text: string): DialectSql => ({
  sqlite: `cast('${text}' as text)`,
  postgres: `('${text}'::text collate "C")`,
});

export const nullLiterals = {
  text: { sqlite: 'cast(null as text)', postgres: '(null::text collate "C")' },
  integer: { sqlite: 'cast(null as integer)', postgres: 'null::bigint' },
} as const satisfies Record<string, DialectSql>;

/** Placeholder for the time of the query in the SQL of a column. It is replaced by a bound parameter. */
export const queryTime = ':now';

/**
 * SQLite's row number of a table as the column `tick`, for sources that join or combine tables. PostgreSQL has none.
 */
export const rowNumberColumn = (table: string): DialectSql => ({
  sqlite: `, ${table}.rowid as tick`,
  postgres: '',
});

const digits = (count: number) => '[0-9]'.repeat(count);
const sqliteTime = `${digits(4)}-${digits(2)}-${digits(2)}T${digits(2)}:${digits(2)}:${digits(2)}.${digits(3)}Z`;
const postgresTime =
  '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-4]):[0-5]\\d:[0-5]\\d\\.\\d{3}Z$';

/** PostgreSQL timestamp from a text. Only call it for valid texts: one invalid text fails the whole query. */
const postgresTimestamp = (time: string): string => {
  const part = (from: number, length: number) => `substr(${time}, ${from}, ${length})::int`;
  const date = `years => ${part(1, 4)} - 1970, months => ${part(6, 2)} - 1, days => ${part(9, 2)} - 1`;
  const hour = `hours => ${part(12, 2)}, mins => ${part(15, 2)}, secs => substr(${time}, 18, 6)::float8`;
  return `(timestamp '1970-01-01' + make_interval(${date}, ${hour}))`;
};

/** Milliseconds between two RFC 3339 texts; null if either is not one. */
export const msBetween = (from: string, to: string): DialectSql => ({
  sqlite: `(case when ${from} glob '${sqliteTime}' and ${to} glob '${sqliteTime}' then cast(round((julianday(${to}) - julianday(${from})) * 86400000) as integer) end)`,
  postgres: `(case when ${from} ~ '${postgresTime}' and ${to} ~ '${postgresTime}' then (extract(epoch from ${postgresTimestamp(to)} - ${postgresTimestamp(from)}) * 1000)::bigint end)`,
});

/**
 * Extracts a whole number from a JSON text; null if there is none. `[member]`: of a flat object. `[object, member]`: of
 * a flat object inside it. `[undefined, member]`: of an object with nested objects that have no such member. PostgreSQL
 * fails a query over one text that its JSON type cannot hold (such as \u0000), so there the text is searched with a
 * regular expression, which works because quotation marks within JSON strings are always escaped.
 */
export const jsonInteger = (
  json: string,
  ...names: readonly [member: string] | readonly [object: string | undefined, member: string]
): DialectSql => {
  const [object, member] = names.length === 1 ? [undefined, names[0]] : names;
  const path = `'$.${object === undefined ? '' : `${object}.`}${member}'`;
  const flat = object === undefined ? '^\\{' : `"${object}":\\{`;
  const before = names.length === 2 && object === undefined ? '' : `${flat}[^{}]*`;
  return {
    sqlite: `(case when json_valid(${json}) then case json_type(${json}, ${path}) when 'integer' then json_extract(${json}, ${path}) end end)`,
    postgres: `(substring(${json} from '${before}"${member}":(-?\\d{1,18})[,}]')::bigint)`,
  };
};

const jsonCharacter = '[^"\\\\\\u0001-\\u001F]|\\\\["\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}';
const unstorableEscape = '\\\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})';

/**
 * Extracts a string from a JSON text, the first of that name; null if there is none. Characters that cannot be stored
 * become U+FFFD.
 */
export const jsonText = (json: string, member: string): DialectSql => {
  const path = `'$.${member}'`;
  const quoted = `substring(${json} from '"${member}":("(?:${jsonCharacter})*")')`;
  return {
    sqlite: `(case when json_valid(${json}) then case json_type(${json}, ${path}) when 'text' then json_extract(replace(${json}, '\\u0000', '\\ufffd'), ${path}) end end)`,
    postgres: `((regexp_replace(${quoted}, '${unstorableEscape}', '\\\\ufffd', 'g')::json #>> '{}') collate "C")`,
  };
};
