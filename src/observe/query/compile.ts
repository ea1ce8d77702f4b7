import { timeCheckFunction } from '../readers/time-check.ts';
import { toDialectSql } from '../surfaces/sql.ts';
import { type AttachedRack, eventsSql } from '../surfaces/transcript.ts';
import type { CompiledQuery } from '../types.ts';
import { conditionSql } from './conditions.ts';
import { afterSql, orderSql } from './paging.ts';
import type { OutputColumn, CheckedQuery } from './types.ts';
import { SqlWriter } from './sql-writer.ts';

export interface CompileOptions {
  /** SQL dialect of the reader. The surface `transcript` always uses SQLite. */
  readonly kind: 'sqlite' | 'postgres';
  /** Base of relative times. */
  readonly now: Date;
  /** Attached racks, for the surface `transcript`. */
  readonly racks?: readonly AttachedRack[];
}

/** Creates an SQL writer in the dialect of the surface's source. */
export const createWriter = (
  { surface: { source }, asOf }: CheckedQuery,
  { kind, now }: CompileOptions,
): SqlWriter => new SqlWriter(source === 'racks' ? 'sqlite' : kind, asOf ?? now);

/**
 * Condition that ends an SQLite statement when its time is over. It checks every 1024 rows, by the row number of the
 * table or by the column `tick` of a source that combines tables.
 */
const timeCheckSql = (from: string): string =>
  `((t.${from.startsWith('(') ? 'tick' : 'rowid'} & 1023) <> 0 or ${timeCheckFunction}() = 1)`;

const fromSql = (
  writer: SqlWriter,
  source: CheckedQuery['surface']['source'],
  racks: readonly AttachedRack[],
): string => (source === 'racks' ? eventsSql(racks) : toDialectSql(source.from)[writer.kind]);

/** `from ... where ...` for the rows that a query matches, with the alias `t`. */
export function matchedSql(
  writer: SqlWriter,
  { surface: { source }, where }: CheckedQuery,
  { racks = [] }: CompileOptions,
  extraConditions: readonly string[] = [],
): string {
  const from = fromSql(writer, source, racks);
  const conditions = [
    ...(writer.kind === 'sqlite' ? [timeCheckSql(from)] : []),
    ...where.map((one) => conditionSql(writer, one)),
    ...extraConditions,
  ];
  return `from ${from} as t${conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''}`;
}

/**
 * Compiles a query. Rows have the columns `c0`, `c1`... in the order of `columns` (`rowOf` converts them to arrays),
 * and `o0`... for the cursor (`nextCursor`). One row more than `limit` is read, to see whether there is another page.
 */
export function compile(
  query: CheckedQuery,
  options: CompileOptions,
): CompiledQuery & { readonly limit: number } {
  const writer = createWriter(query, options);
  const body = query.grouped ? groupsSql(writer, query, options) : rowsSql(writer, query, options);
  const order = query.order.length > 0 ? ` order by ${orderSql(query.order, query.columns.length + 1)}` : '';
  const sql = `${body}${order} limit ${writer.bind(query.limit + 1, 'integer')}`;
  return {
    sql,
    parameters: writer.parameters,
    columns: query.columns.map(toResultColumn),
    limit: query.limit,
  };
}

function rowsSql(writer: SqlWriter, query: CheckedQuery, options: CompileOptions): string {
  const columns = query.columns.map((column) => writer.answered(column));
  const expressions = query.order.map(({ by }) => writer.answered(by));
  const { order, after } = query;
  const extraConditions = after ? [afterSql(writer, { order, expressions }, after)] : [];
  return `select ${aliasColumns(columns, expressions)} ${matchedSql(writer, query, options, extraConditions)}`;
}

/** Groups are built in a subquery, so that they can be compared with the cursor. */
function groupsSql(writer: SqlWriter, query: CheckedQuery, options: CompileOptions): string {
  const { columns, order, after } = query;
  const groupColumns = columns.map((column, n) => `${writer.answered(column)} as c${n}`).join(', ');
  // Grouping visits the rows again, which may take longer than finding them, so the time is checked there, too.
  const from = fromSql(writer, query.surface.source, options.racks ?? []);
  const stop = writer.kind === 'sqlite' ? `, count(${timeCheckSql(from)}) as stop` : '';
  const by = columns.flatMap(({ of }, n) => (of.kind === 'column' ? [n + 1] : []));
  const group = by.length > 0 ? ` group by ${by.join(', ')}` : '';
  const subquery = `select ${groupColumns}${stop} ${matchedSql(writer, query, options)}${group}`;
  const expressions = order.map(({ by: { name } }) => `g.c${columns.findIndex((one) => one.name === name)}`);
  const where = after ? ` where ${afterSql(writer, { order, expressions }, after)}` : '';
  const all = columns.map((_, n) => `g.c${n}`);
  return `select ${aliasColumns(all, expressions)} from (${subquery}) as g${where}`;
}

const aliasColumns = (columns: readonly string[], order: readonly string[]): string =>
  [...columns.map((one, n) => `${one} as c${n}`), ...order.map((one, n) => `${one} as o${n}`)].join(', ');

const toResultColumn = ({ name, type, unit, provenance }: OutputColumn) => ({
  name,
  type,
  ...(unit === undefined ? {} : { unit }),
  provenance,
});
