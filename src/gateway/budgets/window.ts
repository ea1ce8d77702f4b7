import type { Row } from '../store/index.ts';
import { formatNoticed, parseNoticed } from './notices.ts';
import { endOfCalendarPeriod, type Period, parsePeriod } from './period.ts';

export type BudgetRow = Row<'gateway_budgets'>;

/** The spending of a slice of a rolling period: its start in ms since 1970, and nanodollars. */
type Slice = readonly [startMs: number, spent: bigint];

/**
 * A rolling period is counted in this many slices. The spending of a slice counts until the whole slice is older than the
 * period: at most a slice too long, and never too short.
 */
const slicesPerPeriod = 24;

const periods = new Map<string, Period>();

/** The period of a stored budget. */
function periodOf({ period, time_zone }: Pick<BudgetRow, 'period' | 'time_zone'>): Period {
  const id = `${period} ${time_zone}`;
  let parsed = periods.get(id);
  if (!parsed) periods.set(id, (parsed = parsePeriod(period, time_zone ?? undefined)));
  return parsed;
}

/**
 * The state of a budget at a time. What is held stays held when a period ends: it is spent, or not, in the next one. Time
 * does not go back: a gateway whose clock is a little late counts in the period that another one has begun.
 */
export function advance(budget: BudgetRow, at: string): BudgetRow {
  const period = periodOf(budget);
  if (period.kind === 'calendar') {
    if (budget.ends_at !== null && at < budget.ends_at) return budget;
    const ends_at = new Date(endOfCalendarPeriod(period, Date.parse(at))).toISOString();
    return { ...budget, ends_at, spent: 0n, noticed: null };
  }
  const slices = slicesOf(budget);
  const kept = slices.filter(([startMs]) => Date.parse(at) < endOfSlice(startMs, period.spanMs));
  const state = kept.length === slices.length ? budget : withSlices(budget, kept);
  return withoutOldNotices(state, Date.parse(at) - period.spanMs);
}

/** Adds spending to a budget whose state is that at the same time. */
export function addSpending(budget: BudgetRow, at: string, amount: bigint): BudgetRow {
  if (amount === 0n) return budget;
  const period = periodOf(budget);
  if (period.kind === 'calendar') return { ...budget, spent: budget.spent + amount };
  const slices = slicesOf(budget);
  const [lastMs, lastSpent] = slices.at(-1) ?? [Number.NEGATIVE_INFINITY, 0n];
  const sliceMs = period.spanMs / slicesPerPeriod;
  const startMs = Math.floor(Date.parse(at) / sliceMs) * sliceMs;
  return withSlices(
    budget,
    startMs > lastMs
      ? [...slices, [startMs, amount]]
      : [...slices.slice(0, -1), [lastMs, lastSpent + amount]],
  );
}

/**
 * When a budget that is too small for an amount allows more: the end of a calendar period; in a rolling one, when so much of
 * the spending is too old that the amount fits, or all of it is.
 * @returns undefined when nothing is spent, so that nothing can become too old
 */
export function resetTime(budget: BudgetRow, needed: bigint): string | undefined {
  const period = periodOf(budget);
  if (period.kind === 'calendar') return budget.ends_at ?? undefined;
  let free = budget.amount - budget.spent - budget.held;
  let endMs: number | undefined;
  for (const [startMs, spent] of slicesOf(budget)) {
    endMs = endOfSlice(startMs, period.spanMs);
    free += spent;
    if (free >= needed) break;
  }
  return endMs === undefined ? undefined : new Date(endMs).toISOString();
}

/** In a rolling period, a notice is given again when the last one is older than the period. */
function withoutOldNotices(budget: BudgetRow, oldestMs: number): BudgetRow {
  const entries = Object.entries(parseNoticed(budget.noticed));
  const kept = entries.filter(([, atMs]) => atMs > oldestMs);
  return kept.length === entries.length
    ? budget
    : { ...budget, noticed: formatNoticed(Object.fromEntries(kept)) };
}

const endOfSlice = (startMs: number, spanMs: number): number => startMs + spanMs / slicesPerPeriod + spanMs;

const slicesOf = ({ slices }: BudgetRow): Slice[] =>
  slices === null
    ? []
    : (JSON.parse(slices) as [number, string][]).map(([startMs, spent]) => [startMs, BigInt(spent)]);

const withSlices = (budget: BudgetRow, slices: readonly Slice[]): BudgetRow => ({
  ...budget,
  spent: slices.reduce((sum, [, spent]) => sum + spent, 0n),
  slices:
    slices.length === 0 ? null : JSON.stringify(slices.map(([startMs, spent]) => [startMs, String(spent)])),
});
