import type { CursorValue, Order } from './types.ts';
import type { SqlWriter } from './sql-writer.ts';

/** Rows without a value come last, in both directions. */
export const orderSql = (order: readonly Order[], firstPlace: number): string =>
  order
    .map(
      ({ by, descending }, n) =>
        `${firstPlace + n} ${descending ? 'desc' : 'asc'}${by.required ? '' : ' nulls last'}`,
    )
    .join(', ');

/**
 * Condition for rows after the last row of the previous page.
 * @param expressions SQL of `order`
 */
export function afterSql(
  writer: SqlWriter,
  { order, expressions }: { order: readonly Order[]; expressions: readonly string[] },
  after: readonly CursorValue[],
): string {
  const bound: (string | undefined)[] = [];
  const terms = order.map(({ by, descending }, n) => {
    const x = expressions[n] ?? 'null';
    const value = after[n] ?? null;
    const isSum = by.of.kind === 'aggregate' && by.of.fn === 'sum' && by.type === 'integer';
    // Bound on demand: PostgreSQL refuses parameters that are not used.
    const parameter = () => (bound[n] ??= writer.bind(numeric(value, by.type), isSum ? 'sum' : by.type));
    const beyondSql = () => `${x} ${descending ? '<' : '>'} ${parameter()}`;
    return {
      sameSql: () => (value === null ? `${x} is null` : `${x} = ${parameter()}`),
      laterSql: () => (by.required ? beyondSql() : `(${beyondSql()} or ${x} is null)`),
      isLast: value === null,
      /** Redundant condition that lets an index start at the page. */
      from: by.required ? () => `${x} ${descending ? '<=' : '>='} ${parameter()}` : undefined,
    };
  });
  const alternatives = terms.flatMap(({ laterSql, isLast }, n) =>
    isLast ? [] : [[...terms.slice(0, n).map(({ sameSql }) => sameSql()), laterSql()].join(' and ')],
  );
  if (alternatives.length === 0) return '1 = 0';
  const any = `(${alternatives.map((way) => `(${way})`).join(' or ')})`;
  const from = terms[0]?.from?.();
  return from === undefined ? any : `${from} and ${any}`;
}

const numeric = (value: CursorValue, type: string): CursorValue =>
  type === 'number' && typeof value === 'string' ? Number(value) : value;
