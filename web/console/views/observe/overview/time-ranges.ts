/** Time ranges of the overview, and the buckets of their charts. */
export interface TimeRange {
  readonly name: string;
  readonly title: string;
  /** Start, relative to now, as in a query; undefined: all that is recorded. */
  readonly since?: string;
  readonly durationMs?: number;
  readonly bucket: 'minute' | 'ten_minutes' | 'hour' | 'day';
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

export const timeRanges: readonly TimeRange[] = [
  { name: '15m', title: '15 min', since: '-15m', durationMs: 15 * minuteMs, bucket: 'minute' },
  { name: '1h', title: '1 h', since: '-1h', durationMs: hourMs, bucket: 'minute' },
  { name: '24h', title: '24 h', since: '-24h', durationMs: 24 * hourMs, bucket: 'ten_minutes' },
  { name: '7d', title: '7 d', since: '-7d', durationMs: 7 * 24 * hourMs, bucket: 'hour' },
  { name: 'all', title: 'All', bucket: 'day' },
];
export const defaultRange = '24h';

export const bucketMs: Readonly<Record<TimeRange['bucket'], number>> = {
  minute: minuteMs,
  ten_minutes: 10 * minuteMs,
  hour: hourMs,
  day: 24 * hourMs,
};
