import { z } from 'zod';

/** Maximum and default number of rows in a response. */
export const rowLimits = { max: 1000, default: 100 };
/** Maximum number of elements in each list of a query. */
export const listLimits = { select: 100, where: 20, group_by: 4, aggregate: 10, order_by: 4, values: 100 };
/** Maximum length of a cursor in characters. */
export const maxCursorLength = 100_000;

export const operators = [
  'eq',
  'ne',
  'lt',
  'lte',
  'gt',
  'gte',
  'in',
  'not_in',
  'contains',
  'starts_with',
  'is_null',
] as const;
export const aggregates = [
  'count',
  'count_distinct',
  'sum',
  'avg',
  'min',
  'max',
  'p50',
  'p95',
  'p99',
] as const;
export type AggregateName = (typeof aggregates)[number];
export const buckets = ['minute', 'ten_minutes', 'hour', 'day', 'month'] as const;
export type BucketName = (typeof buckets)[number];
export const directions = ['asc', 'desc'] as const;

const expected = (what: string) => ({
  error: ({ input }: { input?: unknown }) =>
    input === undefined ? `is missing: expected ${what}` : `expected ${what}`,
});
const column = z.string(expected('the name of a column')).max(100, 'expected the name of a column');
const list = <Element extends z.ZodType>(element: Element, longest: number, what: string) =>
  z
    .array(element, expected(`a list of ${what}`))
    .min(1, 'must not be empty')
    .max(longest, `at most ${longest} ${what}`);
const oneOf = <const Names extends readonly [string, ...string[]]>(names: Names) =>
  z.enum(names, expected(`one of ${names.join(', ')}`));

const scalar = z.union(
  [z.string().max(2000, 'at most 2,000 characters'), z.number('expected a finite number'), z.boolean()],
  expected('a string, a number, true or false'),
);
export const condition = z.strictObject(
  {
    column,
    op: oneOf(operators),
    value: z
      .union(
        [scalar, list(scalar, listLimits.values, 'values')],
        expected('a string, a number, true, false, or a list of them'),
      )
      .describe(
        'For a time: RFC 3339, or a time before now such as -15m, -24h or -7d. For in and not_in: a list. For is_null: true or false.',
      ),
  },
  expected('an object {column, op, value}'),
);
export const grouping = z.union(
  [column, z.strictObject({ column, bucket: oneOf(buckets) })],
  expected('the name of a column, or {column, bucket}'),
);
export const aggregate = z.strictObject(
  {
    fn: oneOf(aggregates),
    column: column.optional().describe('Absent: count counts rows.'),
    as: z
      .string(expected('a name'))
      .regex(/^[a-z][a-z0-9_]{0,31}$/, 'expected a lower-case letter followed by up to 31 of a-z, 0-9 and _')
      .optional()
      .describe('Column name in the result. Default: FN_COLUMN, or count.'),
  },
  expected('an object {fn, column?, as?}'),
);
export const ordering = z.strictObject(
  { column, direction: oneOf(directions).optional() },
  expected('an object {column, direction?}'),
);
export const limit = z
  .int(expected('a whole number'))
  .min(1, 'must be 1 or more')
  .max(rowLimits.max, `at most ${rowLimits.max} rows`);

/** All conditions must hold. A row without a value in a column matches only `is_null`. */
export const observeQuery = z
  .strictObject(
    {
      surface: z.string(expected('the name of a surface')),
      select: list(column, listLimits.select, 'columns')
        .optional()
        .describe('Default: all columns except long texts, which must be named.'),
      where: z
        .array(condition, expected('a list of conditions'))
        .max(listLimits.where, `at most ${listLimits.where} conditions`)
        .optional(),
      group_by: list(grouping, listLimits.group_by, 'columns').optional(),
      aggregate: list(aggregate, listLimits.aggregate, 'aggregates').optional(),
      order_by: list(ordering, listLimits.order_by, 'columns').optional(),
      limit: limit.optional(),
      cursor: z.string(expected('a string')).max(maxCursorLength, 'is not a valid cursor').optional(),
    },
    expected('an object'),
  )
  .meta({ id: 'ObserveQuery' });
export type ObserveQuery = z.infer<typeof observeQuery>;
export type Condition = z.infer<typeof condition>;
