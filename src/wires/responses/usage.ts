import { isRecord } from '../../util/json.ts';
import type { Usage } from '../core/types.ts';

const count = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0;

/** Reads OpenAI's usage; cache reads and writes are included in `input_tokens`. */
export function readUsage(usage: unknown): Usage | undefined {
  if (!isRecord(usage) || typeof usage['input_tokens'] !== 'number') return undefined;
  const { input_tokens_details: of, output_tokens_details: outOf } = usage;
  const cacheRead = count(isRecord(of) ? of['cached_tokens'] : 0);
  const cacheWrite = count(isRecord(of) ? of['cache_write_tokens'] : 0);
  const reasoning = isRecord(outOf) ? outOf['reasoning_tokens'] : undefined;
  return {
    fresh: Math.max(0, count(usage['input_tokens']) - cacheRead - cacheWrite),
    cacheWrite,
    cacheWrite1h: 0,
    cacheRead,
    output: count(usage['output_tokens']),
    ...(typeof reasoning === 'number' ? { reasoning: count(reasoning) } : {}),
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
