import { isRecord } from '../../util/json.ts';
import { readMediaTokens, readServiceTier, writeMediaTokens } from '../core/billed-details.ts';
import type { Usage } from '../core/types.ts';

const toCount = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;

/**
 * Reads the usage of a provider of the chat wire; undefined where it reports none. Cached tokens are included in the
 * prompt tokens. xAI reports reasoning tokens in addition to the completion tokens, all others include them: the total
 * distinguishes the two.
 * @param tier that the provider reports beside the usage
 */
export function readUsage(usage: unknown, tier?: unknown): Usage | undefined {
  if (!isRecord(usage)) return undefined;
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage;
  if (typeof prompt !== 'number' && typeof completion !== 'number') return undefined;
  const input = isRecord(usage['prompt_tokens_details']) ? usage['prompt_tokens_details'] : {};
  const output = isRecord(usage['completion_tokens_details']) ? usage['completion_tokens_details'] : {};
  // The last two are DeepSeek's older name and Moonshot's.
  const cachedTokens = input['cached_tokens'] ?? usage['prompt_cache_hit_tokens'] ?? usage['cached_tokens'];
  const cacheRead = Math.min(toCount(cachedTokens), toCount(prompt));
  const cacheWrite = Math.min(toCount(input['cache_write_tokens']), toCount(prompt) - cacheRead);
  const reasoning = toCount(output['reasoning_tokens']);
  const isReasoningSeparate =
    reasoning > 0 && toCount(total) === toCount(prompt) + toCount(completion) + reasoning;
  const reportedTier = readServiceTier(tier);
  return {
    fresh: toCount(prompt) - cacheRead - cacheWrite,
    cacheWrite,
    cacheWrite1h: 0,
    cacheRead,
    output: toCount(completion) + (isReasoningSeparate ? reasoning : 0),
    ...('reasoning_tokens' in output ? { reasoning } : {}),
    ...readMediaTokens(input, output),
    ...(reportedTier ? { tier: reportedTier } : {}),
  };
}

/** `usage` of the chat wire. */
export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: {
    readonly cached_tokens: number;
    readonly cache_write_tokens: number;
    readonly audio_tokens?: number;
    readonly image_tokens?: number;
  };
  readonly completion_tokens_details?: {
    readonly reasoning_tokens?: number;
    readonly audio_tokens?: number;
    readonly image_tokens?: number;
  };
}

/** Writes usage in the format of the chat wire. */
export function writeUsage(usage: Usage): ChatUsage {
  const cacheWritten = usage.cacheWrite + usage.cacheWrite1h;
  const prompt = usage.fresh + cacheWritten + usage.cacheRead;
  const outputDetails = {
    ...(usage.reasoning === undefined ? {} : { reasoning_tokens: usage.reasoning }),
    ...writeMediaTokens(usage.audioOutput, usage.imageOutput),
  };
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output,
    total_tokens: prompt + usage.output,
    prompt_tokens_details: {
      cached_tokens: usage.cacheRead,
      cache_write_tokens: cacheWritten,
      ...writeMediaTokens(usage.audioInput, usage.imageInput),
    },
    ...(Object.keys(outputDetails).length === 0 ? {} : { completion_tokens_details: outputDetails }),
  };
}
