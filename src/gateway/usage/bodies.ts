/** Response bodies of usage reports. */
import { z } from 'zod';
import { nanodollarsToJson } from '../catalog/bodies.ts';
import { parseNanodollars, toUsd } from '../ledger/money.ts';
import { usageDimensions, type UsageDimension, type UsagePeriod } from './query.ts';
import { sumOf, type UsageLine, type UsageTotals } from './report.ts';

const totals = {
  requests: z.int().describe('Requests that ended, failed ones included; refused ones are not counted.'),
  prompt_tokens: z.int().describe('All input tokens, cached ones included.'),
  cached_tokens: z.int().describe('Input tokens that were read from a cache.'),
  completion_tokens: z.int(),
  spend_nanodollars: z.int(),
  spend_usd: z.string().describe('The same in US dollars, as exact decimal text.'),
};
const describeDimension: Readonly<Record<UsageDimension, string>> = {
  day: 'The UTC day on which the requests ended, as 2026-01-31.',
  month: 'As 2026-01.',
  key: 'Key id.',
  account: 'Account id.',
  provider: 'Provider of the model that answered.',
  model: 'The model that answered.',
  tag: "The end user: `user` of the requests; empty if they name none, (other) beyond a day's first 10,000.",
};
const dimensions = Object.fromEntries(
  usageDimensions.map((name) => [name, z.string().optional().describe(describeDimension[name])]),
) as Record<UsageDimension, z.ZodOptional<z.ZodString>>;

export const usageSchema = z
  .object({
    object: z.literal('list'),
    since: z.string(),
    until: z.string(),
    by: z.array(z.enum(usageDimensions)),
    data: z.array(z.object({ ...dimensions, ...totals }).meta({ id: 'UsageLine' })),
    total: z.object(totals).meta({ id: 'UsageTotal' }),
  })
  .meta({ id: 'Usage' });

export const toTotalsBody = (sums: UsageTotals): z.infer<typeof usageSchema>['total'] => ({
  requests: Number(sums.requests),
  prompt_tokens: Number(sums.promptTokens),
  cached_tokens: Number(sums.cachedTokens),
  completion_tokens: Number(sums.completionTokens),
  spend_nanodollars: nanodollarsToJson(sums.spent),
  spend_usd: toUsd(sums.spent),
});

export const toUsageBody = (
  { by, since, until }: UsagePeriod & { readonly by: readonly UsageDimension[] },
  lines: readonly UsageLine[],
): z.infer<typeof usageSchema> => ({
  object: 'list',
  since,
  until,
  by: [...by],
  data: lines.map((line) => ({
    ...Object.fromEntries(by.map((name, index) => [name, line.group[index] ?? ''])),
    ...toTotalsBody(line),
  })),
  total: toTotalsBody(sumOf(lines)),
});

export const fromUsageBody = ({ by, data }: z.infer<typeof usageSchema>): UsageLine[] =>
  data.map((line) => ({
    group: by.map((name) => line[name] ?? ''),
    requests: BigInt(line.requests),
    promptTokens: BigInt(line.prompt_tokens),
    cachedTokens: BigInt(line.cached_tokens),
    completionTokens: BigInt(line.completion_tokens),
    spent: parseNanodollars(line.spend_usd),
  }));
