import { z } from 'zod';
import type { Usage as EngineUsage } from '../../engine/index.ts';

export const usage = z
  .object({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z.object({ cached_tokens: z.int().describe('A part of prompt_tokens.') }),
  })
  .meta({ id: 'Usage' });
export type Usage = z.infer<typeof usage>;

export function toUsage(parts: readonly EngineUsage[]): Usage {
  const sum = (member: keyof EngineUsage) => parts.reduce((total, part) => total + part[member], 0);
  return {
    prompt_tokens: sum('prompt_tokens'),
    completion_tokens: sum('completion_tokens'),
    total_tokens: sum('prompt_tokens') + sum('completion_tokens'),
    prompt_tokens_details: { cached_tokens: sum('cached_tokens') },
  };
}
