import { ObserveError } from './errors.ts';
import type { Means } from './means.ts';
import { compileCoverage } from './query/coverage.ts';
import type { CheckedQuery } from './query/types.ts';
import type { Value } from './query/values.ts';
import type { ObserveEnvelope } from './types.ts';

type Coverage = ObserveEnvelope['coverage'];
type Gap = Coverage['gaps'][number];

/** Limit of gaps in a response. */
const mostGaps = 100;
/** With less time left no statement is started. */
const leastTime = 2;

export const noCoverage = (query: CheckedQuery): Coverage => {
  const statement = compileCoverage(query, { kind: 'sqlite', now: new Date(), racks: [] });
  const { from, to, rows, with_value } = statement.read({});
  return { from, to, gaps: [], denominator: { rows, with_value } };
};

/** Computes coverage in the rest of the time budget. Without time left, the response lacks it and has a warning. */
export async function coverageOf(
  query: CheckedQuery,
  means: Means,
): Promise<{ readonly coverage: Coverage; readonly warnings: readonly string[] }> {
  const warnings: string[] = [];
  const begun = performance.now();
  const left = () => means.budgetMs - (performance.now() - begun);
  const inTime = async <T>(what: string, work: (budgetMs: number) => Promise<T>): Promise<T | undefined> => {
    try {
      if (left() > leastTime) return await work(left());
    } catch (error) {
      if (!(error instanceof ObserveError)) throw error;
    }
    warnings.push(`there was no time left to ${what}: use a shorter range of ${query.surface.time}`);
    return undefined;
  };
  const { reader, now, racks } = means;
  const gaps = await inTime('look for gaps', (budgetMs) => gapsOf(query, { ...means, budgetMs }));
  const matched = await inTime('count all matching rows', async (budgetMs) => {
    const options = { kind: reader.kind, now, racks };
    const statement = compileCoverage(query, options);
    const [row = {}] = await reader.read(statement, { budgetMs, racks });
    return statement.read(row);
  });
  if (gaps && gaps.length > mostGaps) warnings.push(`only the latest ${mostGaps} gaps are listed`);
  return {
    coverage: {
      from: matched?.from ?? null,
      to: matched?.to ?? null,
      gaps: gaps?.slice(0, mostGaps) ?? [],
      denominator: matched ? { rows: matched.rows, with_value: matched.with_value } : null,
    },
    warnings,
  };
}

/** Gaps in the time range of the query, newest first. */
async function gapsOf(query: CheckedQuery, { reader, now, budgetMs }: Means): Promise<Gap[]> {
  const { surface } = query;
  if (surface.source === 'racks' || !(await reader.has(['feed_gaps']))) return [];
  const { from, to } = timeAsked(query, query.asOf ?? now);
  const [of, since, until] =
    reader.kind === 'sqlite' ? ['?1', '?2', '?3'] : ['$1::text', '$2::text', '$3::text'];
  const rows = await reader.read(
    {
      sql: `select from_at, to_at, "rows", reason from feed_gaps where surface = ${of} and to_at >= ${since} and from_at <= ${until} order by from_at desc, id desc limit ${mostGaps + 1}`,
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
function timeAsked(
  { surface, where }: CheckedQuery,
  now: Date,
): { readonly from: string; readonly to: string } {
  let [from, to] = ['', '~'];
  for (const { column, op, values } of where) {
    const [value] = values;
    if (column.name !== surface.time || value === undefined || op === 'is_null') continue;
    const time = timeOf(value, now);
    if (op !== 'lt' && op !== 'lte' && time > from) from = time;
    if (op !== 'gt' && op !== 'gte' && time < to) to = time;
  }
  return { from, to };
}

const timeOf = (value: Value, now: Date): string =>
  typeof value === 'object'
    ? new Date(Math.max(0, now.getTime() - value.agoMs)).toISOString()
    : String(value);
