import type { Query } from './types.ts';

export interface NarrowerQuery {
  readonly label: string;
  readonly query: Query;
}

/** Narrower variants of a query that took too long or returned too much. @param time time column of the surface */
export function narrowerQueries(query: Query, time: string): NarrowerQuery[] {
  const { where = [], aggregate = [], group_by: groups = [], order_by: _, ...rest } = query;
  const others = where.filter(({ column, op }) => !(column === time && op.startsWith('g')));
  const from = where.find(({ column, op }) => column === time && op.startsWith('g'))?.value;
  const variants: NarrowerQuery[] = timeRanges
    .filter(({ value }) => hoursOf(value) < hoursOf(from))
    .map(({ value, label }) => ({
      label,
      query: { ...query, where: [...others, { column: time, op: 'gte', value }] },
    }));
  const cheapAggregates = aggregate.filter(({ fn }) => !/^p\d|distinct/.test(fn));
  if (cheapAggregates.length > 0 && cheapAggregates.length < aggregate.length)
    variants.push({
      label: 'without percentiles and distinct counts',
      // Without order_by, because it may name a removed aggregate.
      query: {
        ...rest,
        where,
        aggregate: cheapAggregates,
        ...(groups.length > 0 ? { group_by: groups } : {}),
      },
    });
  const limit = query.limit ?? 100;
  if (limit > 20)
    variants.push({ label: 'fewer rows per page', query: { ...query, limit: Math.ceil(limit / 5) } });
  return variants;
}

const timeRanges = [
  { value: '-7d', label: 'only the last 7 days' },
  { value: '-24h', label: 'only the last 24 hours' },
  { value: '-1h', label: 'only the last hour' },
];
const unitHours: Readonly<Record<string, number>> = { s: 1 / 3600, m: 1 / 60, h: 1, d: 24 };

/** Hours of a relative time such as `-24h`; Infinity for any other time. */
function hoursOf(value: unknown): number {
  const [, count, unit] = (typeof value === 'string' && /^-(\d+)([smhd])$/.exec(value)) || [];
  return count === undefined ? Infinity : Number(count) * (unitHours[unit ?? ''] ?? Infinity);
}
