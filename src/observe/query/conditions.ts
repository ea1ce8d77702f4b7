import type { CheckedCondition } from './types.ts';
import type { Value } from './values.ts';
import type { SqlWriter } from './sql-writer.ts';

const comparisonOperators = { eq: '=', ne: '<>', lt: '<', lte: '<=', gt: '>', gte: '>=' } as const;

/** Converts a relative time to RFC 3339, at the earliest the epoch. */
function resolveValue(value: Value, now: Date): string | number {
  if (typeof value !== 'object') return value;
  return new Date(Math.max(0, now.getTime() - value.agoMs)).toISOString();
}

export function conditionSql(writer: SqlWriter, { column, op, values }: CheckedCondition): string {
  const x = writer.column(column);
  if (op === 'is_null') return values[0] === 1 ? `${x} is null` : `${x} is not null`;
  const parameters = values.map((value) => writer.bind(resolveValue(value, writer.now), column.type));
  const first = parameters[0] ?? 'null';
  const isSqlite = writer.kind === 'sqlite';
  switch (op) {
    case 'in':
      return `${x} in (${parameters.join(', ')})`;
    case 'not_in':
      return `${x} not in (${parameters.join(', ')})`;
    case 'contains':
      return isSqlite ? `instr(${x}, ${first}) > 0` : `strpos(${x}, ${first}) > 0`;
    case 'starts_with':
      return isSqlite ? `substr(${x}, 1, length(${first})) = ${first}` : `starts_with(${x}, ${first})`;
    default:
      return `${x} ${comparisonOperators[op]} ${first}`;
  }
}
