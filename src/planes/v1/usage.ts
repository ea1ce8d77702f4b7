import { z } from 'zod';
import type { Usage as EngineUsage } from '../../engine/index.ts';

export const usage = z
  .object({
    prompt_tokens: z.int().describe('Each prompt once, however many answers it got.'),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z.object({
      cached_tokens: z.int().describe('A part of prompt_tokens.'),
      cache_write_tokens: z.int().describe('Always 0: what is kept for later prompts is not counted.'),
    }),
    completion_tokens_details: z
      .object({ reasoning_tokens: z.int().describe('A part of completion_tokens.') })
      .optional(),
  })
  .meta({ id: 'Usage' });
export type Usage = z.infer<typeof usage>;

/** What an answer took. */
export interface AnswerUsage {
  readonly choice: number;
  readonly usage: EngineUsage;
  /** Of a conversation. */
  readonly reasoningTokens?: number;
}

/** @param answers of each prompt, which is counted with its first one alone */
export function toUsage(ends: readonly AnswerUsage[], answers = 1): Usage {
  const sum = (of: readonly AnswerUsage[], member: keyof EngineUsage) =>
    of.reduce((total, end) => total + end.usage[member], 0);
  const firsts = ends.filter(({ choice }) => choice % answers === 0);
  const prompt_tokens = sum(firsts, 'prompt_tokens');
  const completion_tokens = sum(ends, 'completion_tokens');
  const chat = ends.some(({ reasoningTokens }) => reasoningTokens !== undefined);
  const reasoning_tokens = ends.reduce((total, end) => total + (end.reasoningTokens ?? 0), 0);
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: sum(firsts, 'cached_tokens'), cache_write_tokens: 0 },
    ...(chat ? { completion_tokens_details: { reasoning_tokens } } : {}),
  };
}
