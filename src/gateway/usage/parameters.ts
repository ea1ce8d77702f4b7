import { z } from 'zod';
import { invalidRequest, type WireError } from '../../wires/core/error.ts';
import { Violations } from '../../wires/core/violations.ts';
import {
  daysIn,
  parseUsageDimensions,
  parseUsageSince,
  parseUsageUntil,
  toDay,
  usageDimensions,
  type UsageDimension,
  type UsagePeriod,
} from './query.ts';

/** Limits of one report. */
const maxPeriodDays = 400;
export const maxUsageLines = 10_000;

export const usageParameters = {
  by: z
    .string()
    .describe(`What to add up by, separated by commas: ${usageDimensions.join(', ')}. Default: model.`),
  since: z
    .string()
    .describe('First day: 30d (today and the 29 days before; the default), 2026-01-31, or 2026-01; in UTC.'),
  until: z.string().describe('Last day: 2026-01-31 or 2026-01. Default: today.'),
};

export const tooManyLines = (): WireError =>
  invalidRequest(`The report has more than ${maxUsageLines} lines; ask for a shorter period, or by less.`, {
    code: 'too_many_lines',
    param: 'by',
  });

/** @throws WireError 400 with all violations */
export function parseUsageQuery(
  query: URLSearchParams,
  now: Date,
): UsagePeriod & { readonly by: readonly UsageDimension[] } {
  const violations = new Violations();
  const names = Object.keys(usageParameters);
  for (const name of new Set(query.keys()))
    if (!names.includes(name)) violations.add(name, `expected only ${names.join(', ')}`);
    else if (query.getAll(name).length > 1) violations.add(name, 'expected it once');
  const read = <T>(name: string, fallback: T, parse: (value: string) => T): T => {
    const value = query.get(name);
    if (value === null) return fallback;
    try {
      return parse(value);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      violations.add(name, error.message);
      return fallback;
    }
  };
  const by = read<UsageDimension[]>('by', ['model'], parseUsageDimensions);
  const since = read('since', parseUsageSince('30d'), parseUsageSince)(now);
  const until = read('until', toDay(now), parseUsageUntil);
  violations.throwIfAny();
  if (since > until) violations.add('since', `expected a day up to ${until}, got ${since}`);
  else if (daysIn({ since, until }) > maxPeriodDays)
    violations.add('since', `expected at most ${maxPeriodDays} days, got ${daysIn({ since, until })}`);
  violations.throwIfAny();
  return { by, since, until };
}
