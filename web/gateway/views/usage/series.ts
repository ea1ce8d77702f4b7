import type { ChartProps } from '../../../ui/chart.tsx';
import type { Usage, UsageLine } from '../../api.ts';

export const groupings = {
  model: 'Model',
  key: 'Key',
  provider: 'Provider',
  account: 'Account',
  tag: 'End user',
} as const;
export type Grouping = keyof typeof groupings;

export const measures = {
  spend: 'Spend, $',
  requests: 'Requests',
  prompt_tokens: 'Prompt tokens',
  completion_tokens: 'Completion tokens',
} as const;
export type Measure = keyof typeof measures;

export const measureOf = (line: Usage['total'], measure: Measure): number =>
  measure === 'spend' ? line.spend_nanodollars / 1e9 : line[measure];

/** All days from `since` to `until`, as 2026-01-31. */
export function daysOf(since: string, until: string): string[] {
  const days: string[] = [];
  for (let at = Date.parse(since); at <= Date.parse(until); at += 86_400_000)
    days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

/** Groups that a chart shows on their own: as many as it has colors, less one for all others. */
const maxSeries = 5;

/**
 * Lines by day as series of a chart: one for each of the largest groups, and one for all others.
 * @param group undefined: the lines have no group
 */
export function toSeries(
  { since, until, data }: Usage,
  measure: Measure,
  group: Grouping | undefined,
  nameOf: (id: string) => string,
): Pick<ChartProps, 'x' | 'rowNames' | 'series'> {
  const days = daysOf(since, until);
  const groupOf = (line: UsageLine) => (group === undefined ? '' : (line[group] ?? ''));
  const sums = new Map<string, number>();
  for (const line of data) sums.set(groupOf(line), (sums.get(groupOf(line)) ?? 0) + measureOf(line, measure));
  const largest = [...sums]
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, sums.size > maxSeries + 1 ? maxSeries : maxSeries + 1)
    .map(([id]) => id);
  const byGroup = Map.groupBy(data, (line) => (largest.includes(groupOf(line)) ? groupOf(line) : undefined));
  const valuesOf = (lines: readonly UsageLine[] = []) => {
    const byDay = new Map<string | undefined, number>();
    for (const line of lines) byDay.set(line.day, (byDay.get(line.day) ?? 0) + measureOf(line, measure));
    return days.map((day) => byDay.get(day) ?? 0);
  };
  const draw = days.length === 1 ? ('points' as const) : ('line' as const);
  return {
    x: days.map((day) => Date.parse(day)),
    rowNames: days,
    series: [
      ...largest.map((id) => ({
        name: group === undefined ? measures[measure] : nameOf(id),
        values: valuesOf(byGroup.get(id)),
        draw,
      })),
      ...(byGroup.has(undefined)
        ? [{ name: 'All others', values: valuesOf(byGroup.get(undefined)), draw }]
        : []),
    ],
  };
}
