import { z } from 'zod';
import { tokenProbabilities } from '../../wires/core/llama-members.ts';

export const chatLogprobs = z.object({ content: tokenProbabilities({}), refusal: z.null() });

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
