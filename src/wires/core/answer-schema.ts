import { z } from 'zod';
import { promptProgress, timings } from './timings-schema.ts';

const tokenText = {
  token: z.string().describe('Its text; U+FFFD where it holds a part of a character.'),
  bytes: z.array(z.int()),
};
const token = { ...tokenText, logprob: z.number() };
const sampled = { ...tokenText, prob: z.number().describe('With post_sampling_probs.') };

export const chatLogprobs = z.object({
  content: z.array(
    z.union([
      z.object({ ...token, top_logprobs: z.array(z.object(token)) }),
      z.object({ ...sampled, top_probs: z.array(z.object(sampled)) }),
    ]),
  ),
  refusal: z.null(),
});

export const textLogprobs = z.object({
  tokens: z.array(z.string()).describe('`bytes:` and the bytes where one holds a part of a character.'),
  token_logprobs: z.array(z.number().nullable()).describe('Null for the first token of all.'),
  top_logprobs: z
    .array(z.record(z.string(), z.number()).nullable())
    .describe('The likeliest tokens at each place, and the one that stands there.'),
  text_offset: z
    .array(z.int())
    .describe("Where each token begins in the choice's text, in characters (Unicode code points)."),
});

const usage = z
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

/** Of a whole answer. */
export const takenMembers = { usage, timings };

/** Of a piece of a streamed answer. */
export const chunkMembers = {
  usage: usage.nullable().optional().describe('Null but on the last chunk, and only with include_usage.'),
  timings: timings.optional().describe("On an answer's last chunk, with timings_per_token on all."),
  prompt_progress: promptProgress
    .optional()
    .describe('With return_progress, on chunks without text while the prompt is evaluated.'),
};
