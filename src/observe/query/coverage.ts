import type { Column, Compiled } from '../types.ts';
import { type CompileOptions, matchedSql, writerFor } from './compile.ts';
import type { CheckedQuery } from './types.ts';

export interface Coverage {
  readonly from: string | null;
  readonly to: string | null;
  readonly rows: number;
  readonly with_value: Readonly<Record<string, number>>;
}

/** Compiles the coverage statement of a query. It returns one row, which `read` converts. */
export function compileCoverage(
  query: CheckedQuery,
  options: CompileOptions,
): Pick<Compiled, 'sql' | 'parameters'> & { read(row: Readonly<Record<string, unknown>>): Coverage } {
  const writer = writerFor(query, options);
  const time = query.surface.columns.find(({ name }) => name === query.surface.time);
  const at = time ? writer.column(time) : 'null';
  const columns = measuredOf(query);
  // Columns that are never null have the count of rows.
  const counted = columns.filter(({ required }) => !required);
  const counts = counted.map((column, n) => `, count(${writer.column(column)}) as w${n}`).join('');
  const sql = `select min(${at}) as since, max(${at}) as until, count(*) as n${counts} ${matchedSql(writer, query, options)}`;
  return {
    sql,
    parameters: writer.parameters,
    read(row) {
      const rows = Number(row['n'] ?? 0);
      const entries = columns.map(({ name, required }): [string, number] => [
        name,
        required ? rows : Number(row[`w${counted.findIndex((column) => column.name === name)}`] ?? 0),
      ]);
      return {
        from: (row['since'] as string | null | undefined) ?? null,
        to: (row['until'] as string | null | undefined) ?? null,
        rows,
        with_value: Object.fromEntries(entries),
      };
    },
  };
}

/** The measured and claimed columns that a result is computed from, without duplicates. */
function measuredOf({ columns }: CheckedQuery): Column[] {
  const made = columns.flatMap(({ of }) => (of.column ? [of.column] : []));
  return [...new Set(made)].filter(({ provenance }) => provenance !== 'derived');
}
