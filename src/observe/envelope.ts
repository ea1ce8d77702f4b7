import { narrower } from './advice.ts';
import { coverageOf, noCoverage } from './coverage.ts';
import { ObserveError } from './errors.ts';
import type { Means } from './means.ts';
import { compile } from './query/compile.ts';
import { nextCursor } from './query/cursor.ts';
import { rowOf } from './query/rows.ts';
import type { CheckedQuery } from './query/types.ts';
import type { ObserveEnvelope } from './types.ts';

type Parts = Pick<ObserveEnvelope, 'columns' | 'rows' | 'truncated' | 'next' | 'coverage' | 'warnings'>;

/** @throws ObserveError over_budget, unavailable */
export async function answerTo(query: CheckedQuery, means: Means): Promise<Parts> {
  const begun = performance.now();
  const { reader, now, budgetMs, racks } = means;
  const options = { kind: reader.kind, now, racks };
  const { columns, limit, ...statement } = compile(query, options);
  const found = await reader.read(statement, { budgetMs, racks }).catch((error: unknown) => {
    throw isOverTime(error) ? narrower(query, budgetMs, error) : error;
  });
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  const next = last && nextCursor(query, last, now);
  const tooLong =
    'there is no cursor for the next page, because the texts it would contain are too long: order by another column';
  const left = { ...means, budgetMs: budgetMs - (performance.now() - begun) };
  const { coverage, warnings } = await coverageOf(query, left);
  return {
    columns,
    rows: page.map((row) => rowOf(columns, row)),
    truncated: last !== undefined,
    ...(next === undefined ? {} : { next }),
    coverage,
    warnings: last && next === undefined ? [tooLong, ...warnings] : warnings,
  };
}

/** Response without rows, for a surface that has no data. */
export function emptyAnswer(query: CheckedQuery, warning: string): Parts {
  const { columns } = compile(query, { kind: 'sqlite', now: new Date(), racks: [] });
  return { columns, rows: [], truncated: false, coverage: noCoverage(query), warnings: [warning] };
}

export const isOverTime = (error: unknown): error is ObserveError =>
  error instanceof ObserveError && error.code === 'query_over_budget';
