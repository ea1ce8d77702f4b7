import type { Column, CompiledQuery } from '../types.ts';
import { type CompileOptions, matchedSql, createWriter } from './compile.ts';
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
): Pick<CompiledQuery, 'sql' | 'parameters'> & { read(row: Readonly<Record<string, unknown>>): Coverage } {
  const writer = createWriter(query, options);
  const time = query.surface.columns.find(({ name }) => name === query.surface.time);
  const at = time ? writer.column(time) : 'null';
  const columns = reportedColumns(query);
  // Columns that are never null have the count of rows.
  const nullableColumns = columns.filter(({ required }) => !required);
  const counts = nullableColumns.map((column, n) => `, count(${writer.column(column)}) as w${n}`).join('');
  const sql = `select min(${at}) as since, max(${at}) as until, count(*) as n${counts} ${matchedSql(writer, query, options)}`;
  return {
    sql,
    parameters: writer.parameters,
    read(row) {
      const rows = Number(row['n'] ?? 0);
      const entries = columns.map(({ name, required }): [string, number] => [
        name,
        required ? rows : Number(row[`w${nullableColumns.findIndex((column) => column.name === name)}`] ?? 0),
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
function reportedColumns({ columns }: CheckedQuery): Column[] {
  const sourceColumns = columns.flatMap(({ of }) => (of.column ? [of.column] : []));
  return [...new Set(sourceColumns)].filter(({ provenance }) => provenance !== 'derived');
}
