import { z } from 'zod';
import { flag } from './members.ts';

/** llama.cpp's measures of an answer. */
export const timings = z
  .object({
    cache_n: z.int().describe('Prompt tokens that were not computed again.'),
    prompt_n: z.int().describe('The other prompt tokens.'),
    prompt_ms: z.number(),
    prompt_per_token_ms: z.number(),
    prompt_per_second: z.number(),
    predicted_n: z.int(),
    predicted_ms: z.number(),
    predicted_per_token_ms: z.number(),
    predicted_per_second: z.number(),
  })
  .meta({ id: 'LlamaCppTimings' });
export type Timings = z.infer<typeof timings>;

/** llama.cpp's `prompt_progress`. */
export const promptProgress = z
  .object({
    total: z.int().describe("The prompt's tokens."),
    cache: z.int().describe('Of those, what was not computed again.'),
    processed: z.int().describe('What is evaluated so far, `cache` included.'),
    time_ms: z.number().describe('Since the evaluation began.'),
  })
  .meta({ id: 'LlamaCppPromptProgress' });
export type PromptProgress = z.infer<typeof promptProgress>;

/** llama.cpp's members that ask for them in a stream. */
export const progressMembers = {
  timings_per_token: flag.nullish().describe('With `stream`: `timings` in every object.'),
  return_progress: flag
    .nullish()
    .describe('With `stream`: objects with `prompt_progress` while the prompt is evaluated.'),
};

/** llama.cpp's member of that name. */
export const postSamplingProbs = flag
  .nullish()
  .describe(
    'Tell probabilities of the distribution that tokens are drawn from, after penalties, cuts, temperature and grammar, ' +
      "instead of the model's own logarithms. Tokens that cannot be drawn are left out. Default false.",
  );
