import fc from 'fast-check';
import { isComparable, describeColumns } from '../../src/observe/query/column-operations.ts';
import { buckets, type ObserveQuery } from '../../src/observe/query/shape.ts';
import { surfaces } from '../../src/observe/surfaces/index.ts';
import type { ColumnDescription, Surface } from '../../src/observe/types.ts';
import { texts, times } from './observe-rows.ts';

type Where = NonNullable<ObserveQuery['where']>[number];
type Aggregate = NonNullable<ObserveQuery['aggregate']>[number];

/** Texts that try to inject SQL into a statement, or to break it. */
export const hostile = fc.oneof(
  fc.constantFrom(
    "'; drop table tasks; --",
    "' or '1'='1",
    '" or 1=1 --',
    '$1',
    '?1',
    '${x}',
    '\0',
    'a\0b',
    '\uD800',
    '\\',
    "\\'; select pg_sleep(9); --",
    "E'\\x41'",
    '/*',
    '*/ union select secret_hash from external_sessions --',
    'c0',
    't.id',
    'id; --',
    '__proto__',
    'constructor',
    'rowid',
    'count(*)',
    'NaN',
    'Infinity',
    '-999999d',
    '9'.repeat(400),
    '%_%',
    '😀'.repeat(50),
  ),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ maxLength: 40 }),
);

const integers = fc.oneof(
  fc.constantFrom(
    0,
    1,
    2,
    3,
    5,
    40,
    1000,
    4294967297,
    -0,
    -1,
    Number.MAX_SAFE_INTEGER,
    Number.MIN_SAFE_INTEGER,
  ),
  fc.maxSafeInteger(),
);
const numbers = fc.oneof(
  fc.constantFrom(0, 0.1, 0.25, 1, 1.5, 12345.678, 1e12, -1, 1e308, 5e-324),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);
const moments = fc.oneof(
  fc.constantFrom(...times, '-2h', '-15m', '-400d', '-999999d', '-0s', '2026-06-15T13:59:30.25+02:00'),
  fc
    .date({ noInvalidDate: true, min: new Date(0), max: new Date('2100-01-01') })
    .map((date) => date.toISOString()),
);

const valueOf = {
  text: fc.oneof(fc.constantFrom(...texts), hostile),
  integer: integers,
  number: numbers,
  time: moments,
  flag: fc.boolean(),
  json: fc.boolean(),
} as const;

const conditionOf = (column: ColumnDescription): fc.Arbitrary<Where> =>
  fc.constantFrom(...column.operators).chain((op): fc.Arbitrary<Where> => {
    const one: fc.Arbitrary<string | number | boolean> =
      op === 'is_null' ? fc.boolean() : valueOf[column.type];
    const value = op === 'in' || op === 'not_in' ? fc.array(one, { minLength: 1, maxLength: 5 }) : one;
    return value.map((given) => ({ column: column.name, op, value: given }));
  });

/** What floating sums and means end in is the databases' own, so nothing is ordered by them. */
const isExact = ({ fn }: Aggregate, column: ColumnDescription | undefined): boolean =>
  ['count', 'count_distinct', 'min', 'max'].includes(fn) || (fn === 'sum' && column?.type !== 'number');

const unlike = <T>(list: fc.Arbitrary<T>, maxCount: number, name: (one: T) => string) =>
  fc.uniqueArray(list, { minLength: 1, maxLength: maxCount, selector: name });
const direction = fc.option(fc.constantFrom('asc', 'desc'), { nil: undefined });
const ordered = (column: string, given: 'asc' | 'desc' | undefined) => ({
  column,
  ...(given === undefined ? {} : { direction: given }),
});

function rowsOf(
  surface: Surface,
  columns: readonly ColumnDescription[],
): fc.Arbitrary<Partial<ObserveQuery>> {
  const comparable = surface.columns.filter(isComparable).map(({ name }) => name);
  const names = columns.map(({ name }) => name);
  const order = unlike(fc.tuple(fc.constantFrom(...comparable), direction), 4, ([name]) => name);
  return fc.record({
    select: fc.uniqueArray(fc.constantFrom(...names), { minLength: 1, maxLength: 6 }),
    order_by: order.map((all) => all.map(([name, given]) => ordered(name, given))),
  });
}

function groupsOf(
  surface: Surface,
  columns: readonly ColumnDescription[],
): fc.Arbitrary<Partial<ObserveQuery>> {
  const comparable = columns.filter((_, n) => surface.columns[n] && isComparable(surface.columns[n]));
  type Group = NonNullable<ObserveQuery['group_by']>[number];
  const group = fc.constantFrom(...comparable).chain(({ name, buckets: cut }): fc.Arbitrary<Group> => {
    if (!cut) return fc.constant(name);
    return fc.constantFrom(...buckets).map((bucket) => ({ column: name, bucket }));
  });
  const nameOf = (one: Group) => (typeof one === 'string' ? one : one.column);
  const aggregate = fc
    .constantFrom(...columns)
    .chain((column) =>
      fc.constantFrom(...column.aggregates).map((fn) => ({ fn, column: column.name }) as Aggregate),
    );
  return fc
    .record({
      group_by: unlike(group, 3, nameOf),
      aggregates: unlike(aggregate, 4, (one) => `${one.fn}_${one.column}`),
      direction,
      which: fc.nat(),
    })
    .map(({ group_by, aggregates, direction: given, which }) => {
      const named: Aggregate[] = [
        { fn: 'count', as: 'n_rows' },
        ...aggregates.map((one, n) => ({ ...one, as: `a${n}` })),
      ];
      const known = (one: Aggregate) => columns.find(({ name }) => name === one.column);
      const exact = named.filter((one) => isExact(one, known(one)));
      const by = exact[which % exact.length]?.as ?? 'n_rows';
      return { group_by, aggregate: named, order_by: [ordered(by, given)] };
    });
}

/** Queries that can be answered, with values that are as odd as can be. */
export const validQueries = (within: readonly Surface[] = surfaces): fc.Arbitrary<ObserveQuery> =>
  fc.constantFrom(...within).chain((surface) => {
    const columns = describeColumns(surface);
    const where = fc.array(fc.constantFrom(...columns).chain(conditionOf), { maxLength: 3 });
    const body = fc.oneof(rowsOf(surface, columns), groupsOf(surface, columns));
    return fc.tuple(where, body).map(([conditions, rest]) => ({
      surface: surface.name,
      ...rest,
      ...(conditions.length > 0 ? { where: conditions } : {}),
    }));
  });

/** The same query with other values, and other names for what it aggregates: what is left is of surfaces alone. */
export function withoutValues(query: ObserveQuery): ObserveQuery {
  const named = (query.aggregate ?? []).map(({ as }, n): [string | undefined, string] => [as, `z${n}`]);
  const other = (value: unknown, op: string): unknown => {
    if (Array.isArray(value)) return value.map((one) => other(one, op));
    if (typeof value === 'number') return 1;
    if (typeof value === 'boolean') return op === 'is_null' ? value : true;
    return op === 'contains' || op === 'starts_with' ? 'x' : '2000-01-01T00:00:00.000Z';
  };
  return {
    ...query,
    ...(query.where
      ? { where: query.where.map((one) => ({ ...one, value: other(one.value, one.op) as Where['value'] })) }
      : {}),
    ...(query.aggregate ? { aggregate: query.aggregate.map((one, n) => ({ ...one, as: `z${n}` })) } : {}),
    ...(query.aggregate && query.order_by
      ? {
          order_by: query.order_by.map((one) => ({
            ...one,
            column: named.find(([as]) => as === one.column)?.[1] ?? one.column,
          })),
        }
      : {}),
  };
}

/** Somewhere in a query stands something else. */
export const attacked: fc.Arbitrary<unknown> = fc
  .tuple(validQueries(), fc.array(fc.tuple(fc.nat(), fc.oneof(hostile, fc.jsonValue())), { maxLength: 3 }))
  .map(([query, changes]) => {
    const copy = structuredClone(query) as unknown;
    for (const [which, instead] of changes) {
      const places = placesIn(copy);
      const place = places[which % places.length];
      if (place) (place.of as Record<string, unknown>)[place.name] = instead;
    }
    return copy;
  });

function placesIn(value: unknown): { of: object; name: string }[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [{ of: value, name }, ...placesIn(inner)]);
}
