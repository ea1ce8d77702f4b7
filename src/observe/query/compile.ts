import { inTime } from '../readers/in-time.ts';
import { both } from '../surfaces/sql.ts';
import { type AttachedRack, eventsOf } from '../surfaces/transcript.ts';
import type { Compiled } from '../types.ts';
import { conditionSql } from './conditions.ts';
import { afterSql, orderSql } from './paging.ts';
import type { Answered, CheckedQuery } from './types.ts';
import { Writer } from './writer.ts';

export interface CompileOptions {
  /** Of the reader that is going to read it. The surface `transcript` is SQLite's always. */
  readonly kind: 'sqlite' | 'postgres';
  /** What relative times are relative to. */
  readonly now: Date;
  /** Of the surface `transcript`: those that are attached. */
  readonly racks?: readonly AttachedRack[];
}

/** A writer for whoever answers for the surface. */
export const writerFor = (
  { surface: { source }, asOf }: CheckedQuery,
  { kind, now }: CompileOptions,
): Writer => new Writer(source === 'racks' ? 'sqlite' : kind, asOf ?? now);

/**
 * Ends what goes on for too long, of SQLite's statements: looks every thousand rows or so. Rows of one table have a number;
 * sources that put rows together give it on as `tick`.
 */
const stopping = (from: string): string =>
  `((t.${from.startsWith('(') ? 'tick' : 'rowid'} & 1023) <> 0 or ${inTime}() = 1)`;

const fromOf = (
  writer: Writer,
  source: CheckedQuery['surface']['source'],
  racks: readonly AttachedRack[],
): string => (source === 'racks' ? eventsOf(racks) : both(source.from)[writer.kind]);

/** `from ... where ...`: the rows that a query is about, as `t`. */
export function matchedSql(
  writer: Writer,
  { surface: { source }, where }: CheckedQuery,
  { racks = [] }: CompileOptions,
  more: readonly string[] = [],
): string {
  const from = fromOf(writer, source, racks);
  const conditions = [
    ...(writer.kind === 'sqlite' ? [stopping(from)] : []),
    ...where.map((one) => conditionSql(writer, one)),
    ...more,
  ];
  return `from ${from} as t${conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''}`;
}

/**
 * Rows have `c0`, `c1`... in the order of `columns` (`rowOf` makes the answer's arrays of them), and `o0`... for the cursor
 * (`nextCursor`). One more than `limit` is read.
 */
export function compile(query: CheckedQuery, options: CompileOptions): Compiled & { readonly limit: number } {
  const writer = writerFor(query, options);
  const body = query.grouped ? groups(writer, query, options) : rows(writer, query, options);
  const order = query.order.length > 0 ? ` order by ${orderSql(query.order, query.columns.length + 1)}` : '';
  const sql = `${body}${order} limit ${writer.bind(query.limit + 1, 'integer')}`;
  return { sql, parameters: writer.parameters, columns: query.columns.map(shown), limit: query.limit };
}

function rows(writer: Writer, query: CheckedQuery, options: CompileOptions): string {
  const columns = query.columns.map((column) => writer.answered(column));
  const expressions = query.order.map(({ by }) => writer.answered(by));
  const { order, after } = query;
  const more = after ? [afterSql(writer, { order, expressions }, after)] : [];
  return `select ${named(columns, expressions)} ${matchedSql(writer, query, options, more)}`;
}

/** Groups are made within, so that they can be compared with where the page before ended. */
function groups(writer: Writer, query: CheckedQuery, options: CompileOptions): string {
  const { columns, order, after } = query;
  const made = columns.map((column, n) => `${writer.answered(column)} as c${n}`).join(', ');
  // Rows are looked at once more when they are sorted into their groups, which may take longer than to find them.
  const from = fromOf(writer, query.surface.source, options.racks ?? []);
  const stop = writer.kind === 'sqlite' ? `, count(${stopping(from)}) as stop` : '';
  const by = columns.flatMap(({ of }, n) => (of.kind === 'column' ? [n + 1] : []));
  const group = by.length > 0 ? ` group by ${by.join(', ')}` : '';
  const within = `select ${made}${stop} ${matchedSql(writer, query, options)}${group}`;
  const expressions = order.map(({ by: { name } }) => `g.c${columns.findIndex((one) => one.name === name)}`);
  const where = after ? ` where ${afterSql(writer, { order, expressions }, after)}` : '';
  const all = columns.map((_, n) => `g.c${n}`);
  return `select ${named(all, expressions)} from (${within}) as g${where}`;
}

const named = (columns: readonly string[], order: readonly string[]): string =>
  [...columns.map((one, n) => `${one} as c${n}`), ...order.map((one, n) => `${one} as o${n}`)].join(', ');

const shown = ({ name, type, unit, provenance }: Answered) => ({
  name,
  type,
  ...(unit === undefined ? {} : { unit }),
  provenance,
});
