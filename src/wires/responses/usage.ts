import { isRecord, type Json } from '../../util/json.ts';
import { readMediaTokens, readServiceTier } from '../core/billed-details.ts';
import type { Usage } from '../core/types.ts';

const toCount = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0;

/** Reads the usage of a response, and its tier; cache reads and writes are included in `input_tokens`. */
export function readUsage({ usage, service_tier: tier }: Json): Usage | undefined {
  if (!isRecord(usage) || typeof usage['input_tokens'] !== 'number') return undefined;
  const { input_tokens_details: inputDetails, output_tokens_details: outputDetails } = usage;
  const cacheRead = toCount(isRecord(inputDetails) ? inputDetails['cached_tokens'] : 0);
  const cacheWrite = toCount(isRecord(inputDetails) ? inputDetails['cache_write_tokens'] : 0);
  const reasoning = isRecord(outputDetails) ? outputDetails['reasoning_tokens'] : undefined;
  const reportedTier = readServiceTier(tier);
  return {
    fresh: Math.max(0, toCount(usage['input_tokens']) - cacheRead - cacheWrite),
    cacheWrite,
    cacheWrite1h: 0,
    cacheRead,
    output: toCount(usage['output_tokens']),
    ...(typeof reasoning === 'number' ? { reasoning: toCount(reasoning) } : {}),
    ...readMediaTokens(inputDetails, outputDetails),
    ...(reportedTier ? { tier: reportedTier } : {}),
  };
}

export function writeUsage(usage: Usage) {
  const cacheWrite = usage.cacheWrite + usage.cacheWrite1h;
  const input = usage.fresh + cacheWrite + usage.cacheRead;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: cacheWrite },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: input + usage.output,
  };
}
