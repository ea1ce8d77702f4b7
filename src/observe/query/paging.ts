import type { Carried, Order } from './types.ts';
import type { Writer } from './writer.ts';

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
  writer: Writer,
  { order, expressions }: { order: readonly Order[]; expressions: readonly string[] },
  after: readonly Carried[],
): string {
  const bound: (string | undefined)[] = [];
  const terms = order.map(({ by, descending }, n) => {
    const x = expressions[n] ?? 'null';
    const value = after[n] ?? null;
    const isSum = by.of.kind === 'aggregate' && by.of.fn === 'sum' && by.type === 'integer';
    // Bound on demand: PostgreSQL refuses parameters that are not used.
    const given = () => (bound[n] ??= writer.bind(numeric(value, by.type), isSum ? 'sum' : by.type));
    const beyond = () => `${x} ${descending ? '<' : '>'} ${given()}`;
    return {
      same: () => (value === null ? `${x} is null` : `${x} = ${given()}`),
      later: () => (by.required ? beyond() : `(${beyond()} or ${x} is null)`),
      isLast: value === null,
      /** Redundant condition that lets an index start at the page. */
      from: by.required ? () => `${x} ${descending ? '<=' : '>='} ${given()}` : undefined,
    };
  });
  const ways = terms.flatMap(({ later, isLast }, n) =>
    isLast ? [] : [[...terms.slice(0, n).map(({ same }) => same()), later()].join(' and ')],
  );
  if (ways.length === 0) return '1 = 0';
  const any = `(${ways.map((way) => `(${way})`).join(' or ')})`;
  const from = terms[0]?.from?.();
  return from === undefined ? any : `${from} and ${any}`;
}

const numeric = (value: Carried, type: string): Carried =>
  type === 'number' && typeof value === 'string' ? Number(value) : value;
