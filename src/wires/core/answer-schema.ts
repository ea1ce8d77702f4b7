import { z } from 'zod';
import { promptProgress, timings } from './timings-schema.ts';

const tokenText = {
  token: z.string().describe('Text of the token; U+FFFD where it contains part of a character.'),
  bytes: z.array(z.int()),
};
const token = { ...tokenText, logprob: z.number() };
const sampled = { ...tokenText, prob: z.number().describe('Present with post_sampling_probs.') };

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
  tokens: z
    .array(z.string())
    .describe('`bytes:` followed by the bytes where a token contains part of a character.'),
  token_logprobs: z.array(z.number().nullable()).describe('Null for the first token of the prompt.'),
  top_logprobs: z
    .array(z.record(z.string(), z.number()).nullable())
    .describe('The most likely tokens at each position, and the token that was chosen.'),
  text_offset: z
    .array(z.int())
    .describe("Where each token begins in the choice's text, in characters (Unicode code points)."),
});

const usage = z
  .object({
    prompt_tokens: z
      .int()
      .describe('Each prompt is counted once, however many answers were generated for it.'),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z.object({
      cached_tokens: z.int().describe('Included in prompt_tokens.'),
      cache_write_tokens: z.int().describe('Always 0: cache writes are not counted.'),
    }),
    completion_tokens_details: z
      .object({ reasoning_tokens: z.int().describe('Included in completion_tokens.') })
      .optional(),
  })
  .meta({ id: 'Usage' });

/** Members of a complete answer. */
export const usageMembers = { usage, timings };

/** Members of a chunk of a streamed answer. */
export const chunkMembers = {
  usage: usage.nullable().optional().describe('Null except on the last chunk; only with include_usage.'),
  timings: timings
    .optional()
    .describe('On the last chunk of an answer; with timings_per_token on every chunk.'),
  prompt_progress: promptProgress
    .optional()
    .describe('With return_progress, on chunks without text while the prompt is evaluated.'),
};
