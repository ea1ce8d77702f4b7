import { z } from 'zod';
import { flag } from './members.ts';

/** Members of llama.cpp's requests and answers that OpenAI's wires have here, too. */

/** How a request asks for measures in a stream. */
export const progressMembers = {
  timings_per_token: flag.nullish().describe('With `stream`: `timings` in every object.'),
  return_progress: flag
    .nullish()
    .describe('With `stream`: objects with `prompt_progress` while the prompt is evaluated.'),
};

export const postSamplingProbs = flag
  .nullish()
  .describe(
    'Tell probabilities of the distribution that tokens are drawn from, after penalties, cuts, temperature and grammar, ' +
      "instead of the model's own logarithms. Tokens that cannot be drawn are left out. Default false.",
  );

/** The measures of an answer. */
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

export const promptProgress = z
  .object({
    total: z.int().describe("The prompt's tokens."),
    cache: z.int().describe('Of those, what was not computed again.'),
    processed: z.int().describe('What is evaluated so far, `cache` included.'),
    time_ms: z.number().describe('Since the evaluation began.'),
  })
  .meta({ id: 'LlamaCppPromptProgress' });

/** The tokens of a text, each with the likeliest ones in its place. @param more what else is told of each */
export function tokenProbabilities<More extends z.ZodRawShape>(more: More) {
  const token = {
    ...more,
    token: z.string().describe('Its text; U+FFFD where it holds a part of a character.'),
    bytes: z.array(z.int()),
  };
  const byModel = { ...token, logprob: z.number() };
  const bySampling = { ...token, prob: z.number().describe('With post_sampling_probs.') };
  return z.array(
    z.union([
      z.object({ ...byModel, top_logprobs: z.array(z.object(byModel)) }),
      z.object({ ...bySampling, top_probs: z.array(z.object(bySampling)) }),
    ]),
  );
}
