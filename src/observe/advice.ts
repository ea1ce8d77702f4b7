import { ObserveError } from './errors.ts';
import type { CheckedQuery } from './query/types.ts';

/** What takes long in a query that was not answered in time, and how it would take less. */
export function narrower(query: CheckedQuery, budgetMs: number, cause: ObserveError): ObserveError {
  const { surface, where, columns, order } = query;
  const bounded = where.some(({ column, op }) => column.name === surface.time && op.startsWith('g'));
  const searched = where.filter(({ op }) => op === 'contains' || op === 'starts_with');
  const held = columns.filter(({ of }) => of.kind === 'aggregate' && /^p\d|distinct/.test(of.fn));
  const groups = columns.filter(({ of }) => of.kind === 'column');
  const first = order[0]?.by.name;
  const isSorted = !query.grouped && first !== undefined && first !== surface.time;
  const slow = [
    ...(searched.length > 0
      ? [`every text of ${list(searched.map(({ column }) => column))} is searched`]
      : []),
    ...(held.length > 0 ? [`${list(held)} needs every value at once`] : []),
    ...(query.grouped && groups.length > 0 ? [`rows are gathered by ${list(groups)}`] : []),
    ...(isSorted ? [`all rows are sorted by ${first}`] : []),
  ];
  const ways = [
    bounded
      ? `ask for a shorter time of ${surface.time}`
      : `ask for a part of the time, as {"column": "${surface.time}", "op": "gte", "value": "-24h"} in where`,
    ...(held.length > 0 ? [`leave out ${list(held)}`] : []),
    ...(query.grouped && groups.length > 1 ? ['group by fewer columns'] : []),
    ...(isSorted ? ['leave order_by out: the newest come first without sorting'] : []),
  ];
  const why = slow.length > 0 ? slow.join(', ') : `all rows of ${surface.name} are looked at`;
  return new ObserveError(
    cause.kind,
    cause.code,
    `No answer within ${Math.round(budgetMs)} ms: ${why}. To narrow it, ${ways.join('; or ')}.`,
    { cause },
  );
}

const list = (named: readonly { readonly name: string }[]) => named.map(({ name }) => name).join(', ');
