/** A simple model of budgets: lists of charges, counted anew for each question, with the calendar of `Intl`. */

export interface ModelBudget {
  readonly id: string;
  readonly ownerId: string;
  readonly period: string;
  readonly timeZone: string | undefined;
  amount: bigint;
  readonly charges: { readonly atMs: number; readonly amount: bigint }[];
  held: bigint;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** The local date, as `2026-01-31`. */
export function localDate(atMs: number, timeZone: string): string {
  let format = formats.get(timeZone);
  if (!format)
    formats.set(
      timeZone,
      (format = new Intl.DateTimeFormat('en-CA', {
        timeZone,
        year: 'numeric',
        month: '2-digit',
        day: '2-digit',
      })),
    );
  return format.format(atMs);
}

/** A name of the calendar period that a time is in. */
export function periodName(unit: string, atMs: number, timeZone: string): string {
  const date = localDate(atMs, timeZone);
  if (unit === 'day') return date;
  if (unit === 'month') return date.slice(0, 7);
  const day = new Date(`${date}T00:00:00Z`);
  const sinceMonday = (day.getUTCDay() + 6) % 7;
  return new Date(day.getTime() - sinceMonday * 86_400_000).toISOString().slice(0, 10);
}

export const spanOf = (period: string): number =>
  Number.parseInt(period, 10) * (period.endsWith('d') ? 24 : 1) * 3_600_000;

/** What is spent in the period that contains a time. */
export function spentAt({ period, timeZone, charges }: ModelBudget, nowMs: number): bigint {
  const counts = (atMs: number) => {
    if (timeZone !== undefined)
      return periodName(period, atMs, timeZone) === periodName(period, nowMs, timeZone);
    const sliceMs = spanOf(period) / 24;
    return nowMs < (Math.floor(atMs / sliceMs) + 1) * sliceMs + spanOf(period);
  };
  return charges.filter(({ atMs }) => counts(atMs)).reduce((sum, { amount }) => sum + amount, 0n);
}
