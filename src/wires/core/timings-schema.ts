import { z } from 'zod';
import { flag, optionalInteger } from './members.ts';

/** llama.cpp's timings of an answer. */
export const timings = z
  .object({
    cache_n: z.int().describe('Prompt tokens read from the cache.'),
    prompt_n: z.int().describe('Prompt tokens that were computed.'),
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
    total: z.int().describe('Tokens of the prompt.'),
    cache: z.int().describe('Prompt tokens read from the cache.'),
    processed: z.int().describe('Prompt tokens evaluated so far, including `cache`.'),
    time_ms: z.number().describe('Milliseconds since the evaluation began.'),
  })
  .meta({ id: 'LlamaCppPromptProgress' });
export type PromptProgress = z.infer<typeof promptProgress>;

/** llama.cpp's members that request them in a stream. */
export const progressMembers = {
  timings_per_token: flag.nullish().describe('With `stream`: `timings` in every object.'),
  return_progress: flag
    .nullish()
    .describe('With `stream`: objects with `prompt_progress` while the prompt is evaluated.'),
};

/** llama.cpp's `post_sampling_probs`. */
export const postSamplingProbs = flag
  .nullish()
  .describe(
    'Report probabilities of the distribution that tokens are sampled from, after penalties, truncation, temperature and grammar, ' +
      "instead of the model's log probabilities. Tokens that cannot be sampled are omitted. Default false.",
  );

/** llama.cpp's members for the prompt cache. */
export const cacheMembers = {
  cache_prompt: flag
    .nullish()
    .describe('false: evaluate the whole prompt, without what the prompt cache has of it. Default true.'),
  id_slot: optionalInteger(-1).describe(
    'Has no effect: the engine assigns slots, and all of them share one prompt cache.',
  ),
};
