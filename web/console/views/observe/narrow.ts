import type { Query } from './types.ts';

export interface Narrowing {
  readonly what: string;
  readonly query: Query;
}

/** Narrower variants of a query that took too long or returned too much. @param time time column of the surface */
export function narrowings(query: Query, time: string): Narrowing[] {
  const { where = [], aggregate = [], group_by: groups = [], order_by: _, ...rest } = query;
  const others = where.filter(({ column, op }) => !(column === time && op.startsWith('g')));
  const from = where.find(({ column, op }) => column === time && op.startsWith('g'))?.value;
  const ways: Narrowing[] = spans
    .filter(({ value }) => hoursOf(value) < hoursOf(from))
    .map(({ value, what }) => ({
      what,
      query: { ...query, where: [...others, { column: time, op: 'gte', value }] },
    }));
  const light = aggregate.filter(({ fn }) => !/^p\d|distinct/.test(fn));
  if (light.length > 0 && light.length < aggregate.length)
    ways.push({
      what: 'without percentiles and distinct counts',
      // Without order_by, because it may name a removed aggregate.
      query: { ...rest, where, aggregate: light, ...(groups.length > 0 ? { group_by: groups } : {}) },
    });
  const limit = query.limit ?? 100;
  if (limit > 20)
    ways.push({ what: 'fewer rows per page', query: { ...query, limit: Math.ceil(limit / 5) } });
  return ways;
}

const spans = [
  { value: '-7d', what: 'only the last 7 days' },
  { value: '-24h', what: 'only the last 24 hours' },
  { value: '-1h', what: 'only the last hour' },
];
const unitHours: Readonly<Record<string, number>> = { s: 1 / 3600, m: 1 / 60, h: 1, d: 24 };

/** Hours of a relative time such as `-24h`; Infinity for any other time. */
function hoursOf(value: unknown): number {
  const [, count, unit] = (typeof value === 'string' && /^-(\d+)([smhd])$/.exec(value)) || [];
  return count === undefined ? Infinity : Number(count) * (unitHours[unit ?? ''] ?? Infinity);
}
