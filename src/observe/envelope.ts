import { explainTimeout } from './timeout-advice.ts';
import { computeCoverage, emptyCoverage } from './coverage.ts';
import { ObserveError } from './errors.ts';
import type { QueryContext } from './query-context.ts';
import { compile } from './query/compile.ts';
import { nextCursor } from './query/cursor.ts';
import { toRow } from './query/rows.ts';
import type { CheckedQuery } from './query/types.ts';
import type { ObserveEnvelope } from './types.ts';

type ResponseParts = Pick<
  ObserveEnvelope,
  'columns' | 'rows' | 'truncated' | 'next' | 'coverage' | 'warnings'
>;

/** @throws ObserveError over_budget, unavailable */
export async function runQuery(query: CheckedQuery, means: QueryContext): Promise<ResponseParts> {
  const startedAtMs = performance.now();
  const { reader, now, budgetMs, racks } = means;
  const options = { kind: reader.kind, now, racks };
  const { columns, limit, ...statement } = compile(query, options);
  const found = await reader.read(statement, { budgetMs, racks }).catch((error: unknown) => {
    throw isQueryTimeout(error) ? explainTimeout(query, budgetMs, error) : error;
  });
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  const next = last && nextCursor(query, last, now);
  const noCursorWarning =
    'there is no cursor for the next page, because the texts it would contain are too long: order by another column';
  const remaining = { ...means, budgetMs: budgetMs - (performance.now() - startedAtMs) };
  const { coverage, warnings } = await computeCoverage(query, remaining);
  return {
    columns,
    rows: page.map((row) => toRow(columns, row)),
    truncated: last !== undefined,
    ...(next === undefined ? {} : { next }),
    coverage,
    warnings: last && next === undefined ? [noCursorWarning, ...warnings] : warnings,
  };
}

/** Response without rows, for a surface that has no data. */
export function emptyResponse(query: CheckedQuery, warning: string): ResponseParts {
  const { columns } = compile(query, { kind: 'sqlite', now: new Date(), racks: [] });
  return { columns, rows: [], truncated: false, coverage: emptyCoverage(query), warnings: [warning] };
}

export const isQueryTimeout = (error: unknown): error is ObserveError =>
  error instanceof ObserveError && error.code === 'query_over_budget';
