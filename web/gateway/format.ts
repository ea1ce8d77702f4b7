/** Money, tokens and states as the views show them. */
import { formatNanodollars, formatRelativeTime } from '../ui/format.ts';
import type { Account, Budget, Key } from './api.ts';

/** Dollars with as many digits as one reads: cents, or six decimals below a dollar. */
export function formatMoney(nano: number): string {
  const usd = nano / 1e9;
  const digits = Math.abs(usd) >= 1 || nano === 0 ? 2 : 6;
  return new Intl.NumberFormat('en', {
    style: 'currency',
    currency: 'USD',
    minimumFractionDigits: 2,
    maximumFractionDigits: digits,
  }).format(usd);
}

export const formatExactMoney = (nano: number): string => formatNanodollars(nano);

export const formatCount = (value: number): string => new Intl.NumberFormat('en').format(value);

/** `today` in UTC, as the gateway counts days: 2026-01-31. */
export const utcDay = (daysAgo = 0, now = Date.now()): string =>
  new Date(now - daysAgo * 86_400_000).toISOString().slice(0, 10);

export type State = 'active' | 'disabled' | 'revoked' | 'expired';

export function keyState(key: Key, account?: Account): State {
  if (key.revoked_at !== null) return 'revoked';
  if (key.expires_at !== null && Date.parse(key.expires_at) <= Date.now()) return 'expired';
  return key.disabled_at !== null || (account && account.disabled_at !== null) ? 'disabled' : 'active';
}

/** The used part of a budget, 0 to 1; a budget of zero is used up. */
export const usedPart = ({
  spent_nanodollars: spent,
  held_nanodollars: held,
  amount_nanodollars: amount,
}: Budget) => (amount === 0 ? 1 : (spent + held) / amount);

/** Parts of a budget at which the gateway sends a notice. */
const noticeParts = [1, 0.8, 0.5] as const;

/** The highest notice that a budget has reached. */
export const reachedNotice = (budget: Budget): number | undefined =>
  noticeParts.find(
    (part) => budget.amount_nanodollars > 0 && budget.spent_nanodollars >= part * budget.amount_nanodollars,
  );

/** A near time as `in 3 d`, a far one as a date. */
export const formatExpiry = (time: string, now = Date.now()): string =>
  Math.abs(Date.parse(time) - now) < 90 * 86_400_000
    ? formatRelativeTime(time, now)
    : new Date(time).toLocaleDateString(undefined, { dateStyle: 'medium' });

/** `month (Europe/Berlin)`, `last 12 hours`. */
export function formatPeriod({ period, time_zone: zone }: Pick<Budget, 'period' | 'time_zone'>): string {
  const [, count, unit] = /^(\d+)([hd])$/.exec(period) ?? [];
  if (count !== undefined) return `last ${count} ${unit === 'h' ? 'hours' : 'days'}`;
  return zone === null ? period : `${period} (${zone})`;
}
