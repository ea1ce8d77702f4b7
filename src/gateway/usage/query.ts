import { didYouMean } from '../../words/nearest.ts';

/** What usage can be added up by. */
export const usageDimensions = ['day', 'month', 'key', 'account', 'provider', 'model', 'tag'] as const;
export type UsageDimension = (typeof usageDimensions)[number];

/** Days as `2026-01-31`, in UTC; both belong to the period. */
export interface UsagePeriod {
  readonly since: string;
  readonly until: string;
}

const dayMs = 86_400_000;
const maxDays = 3660;

export const toDay = (time: number | Date): string => new Date(time).toISOString().slice(0, 10);

/** The day after. */
export const nextDay = (day: string): string => toDay(Date.parse(day) + dayMs);

/** Number of days of a period. */
export const daysIn = ({ since, until }: UsagePeriod): number =>
  (Date.parse(until) - Date.parse(since)) / dayMs + 1;

/** @throws RangeError with a message for the user */
export function parseUsageDimensions(value: string): UsageDimension[] {
  const names = value.split(',').map((name) => name.trim());
  const found = names.flatMap((name) => usageDimensions.find((one) => one === name) ?? []);
  const unknown = names.find((name) => !found.some((one) => one === name));
  if (unknown === undefined) return [...new Set(found)];
  throw new RangeError(
    `expected some of ${usageDimensions.join(', ')}, separated by commas, got '${unknown.slice(0, 60)}'${didYouMean(unknown, usageDimensions, (near) => `'${near}'`)}`,
  );
}

/** First and last day of a date (`2026-01-31`) or a month (`2026-01`); undefined if it is neither. */
function parseDays(value: string): UsagePeriod | undefined {
  const [, month, day] = /^([12]\d{3}-\d\d)(-\d\d)?$/.exec(value) ?? [];
  if (month === undefined) return undefined;
  const first = new Date(`${month}${day ?? '-01'}T00:00:00Z`);
  // JavaScript parses February 31 as a day in March.
  if (Number.isNaN(first.getTime()) || !toDay(first).startsWith(value)) return undefined;
  const last = day === undefined ? Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0) : first;
  return { since: toDay(first), until: toDay(last) };
}

/** Parses the first day of a period. `1d` is today, `30d` begins 29 days before. @throws RangeError */
export function parseUsageSince(value: string): (now: Date) => string {
  const days = Number(/^([1-9]\d{0,3})d$/.exec(value)?.[1]);
  if (days <= maxDays) return (now) => toDay(now.getTime() - (days - 1) * dayMs);
  const dated = parseDays(value);
  if (dated) return () => dated.since;
  throw new RangeError(
    `expected a number of days up to ${maxDays}d such as 30d, a date such as 2026-01-31, or a month such as 2026-01, got '${value.slice(0, 60)}'`,
  );
}

/** Parses the last day of a period. @throws RangeError */
export function parseUsageUntil(value: string): string {
  const dated = parseDays(value);
  if (dated) return dated.until;
  throw new RangeError(
    `expected a date such as 2026-01-31, or a month such as 2026-01, got '${value.slice(0, 60)}'`,
  );
}
