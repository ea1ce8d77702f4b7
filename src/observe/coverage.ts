import { ObserveError } from './errors.ts';
import type { QueryContext } from './query-context.ts';
import { compileCoverage } from './query/coverage.ts';
import type { CheckedQuery } from './query/types.ts';
import type { Value } from './query/values.ts';
import type { ObserveEnvelope } from './types.ts';

type Coverage = ObserveEnvelope['coverage'];
type Gap = Coverage['gaps'][number];

/** Limit of gaps in a response. */
const maxGaps = 100;
/** With less time left no statement is started. */
const minTimeMs = 2;

export const emptyCoverage = (query: CheckedQuery): Coverage => {
  const statement = compileCoverage(query, { kind: 'sqlite', now: new Date(), racks: [] });
  const { from, to, rows, with_value } = statement.read({});
  return { from, to, gaps: [], denominator: { rows, with_value } };
};

/** Computes coverage in the rest of the time budget. Without time left, the response lacks it and has a warning. */
export async function computeCoverage(
  query: CheckedQuery,
  means: QueryContext,
): Promise<{ readonly coverage: Coverage; readonly warnings: readonly string[] }> {
  const warnings: string[] = [];
  const startedAtMs = performance.now();
  const remainingMs = () => means.budgetMs - (performance.now() - startedAtMs);
  const withinBudget = async <T>(
    what: string,
    work: (budgetMs: number) => Promise<T>,
  ): Promise<T | undefined> => {
    try {
      if (remainingMs() > minTimeMs) return await work(remainingMs());
    } catch (error) {
      if (!(error instanceof ObserveError)) throw error;
    }
    warnings.push(`there was no time left to ${what}: use a shorter range of ${query.surface.time}`);
    return undefined;
  };
  const { reader, now, racks } = means;
  const gaps = await withinBudget('look for gaps', (budgetMs) => findGaps(query, { ...means, budgetMs }));
  const matchedRows = await withinBudget('count all matching rows', async (budgetMs) => {
    const options = { kind: reader.kind, now, racks };
    const statement = compileCoverage(query, options);
    const [row = {}] = await reader.read(statement, { budgetMs, racks });
    return statement.read(row);
  });
  if (gaps && gaps.length > maxGaps) warnings.push(`only the latest ${maxGaps} gaps are listed`);
  return {
    coverage: {
      from: matchedRows?.from ?? null,
      to: matchedRows?.to ?? null,
      gaps: gaps?.slice(0, maxGaps) ?? [],
      denominator: matchedRows ? { rows: matchedRows.rows, with_value: matchedRows.with_value } : null,
    },
    warnings,
  };
}

/** Gaps in the time range of the query, newest first. */
async function findGaps(query: CheckedQuery, { reader, now, budgetMs }: QueryContext): Promise<Gap[]> {
  const { surface } = query;
  if (surface.source === 'racks' || !(await reader.has(['feed_gaps']))) return [];
  const { from, to } = timeRangeOf(query, query.asOf ?? now);
  const [of, since, until] =
    reader.kind === 'sqlite' ? ['?1', '?2', '?3'] : ['$1::text', '$2::text', '$3::text'];
  const rows = await reader.read(
    {
      sql: `select from_at, to_at, "rows", reason from feed_gaps where surface = ${of} and to_at >= ${since} and from_at <= ${until} order by from_at desc, id desc limit ${maxGaps + 1}`,
      parameters: [surface.name, from, to],
    },
    { budgetMs },
  );
  return rows.map((row) => ({
    from: String(row['from_at']),
    to: String(row['to_at']),
    rows: Number(row['rows']),
    reason: String(row['reason']),
  }));
}

/** Time range of a query. An absent bound is a text that sorts before or after all times. */
function timeRangeOf(
  { surface, where }: CheckedQuery,
  now: Date,
): { readonly from: string; readonly to: string } {
  let [from, to] = ['', '~'];
  for (const { column, op, values } of where) {
    const [value] = values;
    if (column.name !== surface.time || value === undefined || op === 'is_null') continue;
    const time = toTimeText(value, now);
    if (op !== 'lt' && op !== 'lte' && time > from) from = time;
    if (op !== 'gt' && op !== 'gte' && time < to) to = time;
  }
  return { from, to };
}

const toTimeText = (value: Value, now: Date): string =>
  typeof value === 'object'
    ? new Date(Math.max(0, now.getTime() - value.agoMs)).toISOString()
    : String(value);
