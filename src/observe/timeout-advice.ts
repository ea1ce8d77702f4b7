import { ObserveError } from './errors.ts';
import type { CheckedQuery } from './query/types.ts';

/** Error for a query that exceeded its time limit. It says what is slow in the query and how to narrow it. */
export function explainTimeout(query: CheckedQuery, budgetMs: number, cause: ObserveError): ObserveError {
  const { surface, where, columns, order } = query;
  const hasTimeRange = where.some(({ column, op }) => column.name === surface.time && op.startsWith('g'));
  const searched = where.filter(({ op }) => op === 'contains' || op === 'starts_with');
  const holdsAllValues = columns.filter(({ of }) => of.kind === 'aggregate' && /^p\d|distinct/.test(of.fn));
  const groups = columns.filter(({ of }) => of.kind === 'column');
  const first = order[0]?.by.name;
  const isSorted = !query.grouped && first !== undefined && first !== surface.time;
  const causes = [
    ...(searched.length > 0
      ? [`it searches every text of ${joinNames(searched.map(({ column }) => column))}`]
      : []),
    ...(holdsAllValues.length > 0 ? [`${joinNames(holdsAllValues)} must hold every value in memory`] : []),
    ...(query.grouped && groups.length > 0 ? [`it groups rows by ${joinNames(groups)}`] : []),
    ...(isSorted ? [`it sorts all rows by ${first}`] : []),
  ];
  const remedies = [
    hasTimeRange
      ? `use a shorter range of ${surface.time}`
      : `add a time range such as {"column": "${surface.time}", "op": "gte", "value": "-24h"} to where`,
    ...(holdsAllValues.length > 0 ? [`leave out ${joinNames(holdsAllValues)}`] : []),
    ...(query.grouped && groups.length > 1 ? ['group by fewer columns'] : []),
    ...(isSorted ? ['leave out order_by: without it the newest rows come first'] : []),
  ];
  const why = causes.length > 0 ? causes.join(', ') : `it reads all rows of ${surface.name}`;
  return new ObserveError(
    cause.kind,
    cause.code,
    `The query took more than ${Math.round(budgetMs)} ms: ${why}. To narrow it, ${remedies.join('; or ')}.`,
    { cause },
  );
}

const joinNames = (named: readonly { readonly name: string }[]) => named.map(({ name }) => name).join(', ');
