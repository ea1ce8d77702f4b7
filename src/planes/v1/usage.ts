import { z } from 'zod';

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
