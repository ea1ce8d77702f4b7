import { z } from 'zod';
import { name, requestBodySchema, text, textsOrIds, optionalInteger } from '../core/members.ts';

const maxInputs = { count: 2048, error: 'at most 2048 inputs' };

/** Members that the gateway also validates. */
export const embeddingMembers = {
  input: textsOrIds(text, maxInputs),
  encoding_format: z
    .enum(['float', 'base64'], { error: "expected 'float' or 'base64'" })
    .nullish()
    .describe('Numbers, or 32-bit floats (little-endian) in base64. Default `float`.'),
  dimensions: optionalInteger(1).describe(
    'Number of leading elements to return, rescaled to unit length. Default: all.',
  ),
};

export const embeddingRequest = requestBodySchema('EmbeddingRequest', {
  model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
  ...embeddingMembers,
  input: textsOrIds(name, maxInputs).describe(
    'Texts are wrapped in the special tokens that the model expects; special tokens in a text are parsed as tokens. ' +
      'Prefixes that some models expect for queries or documents (`search_query: `) must be part of the text. Token ids are ' +
      'used unchanged.',
  ),
});
export type EmbeddingRequest = z.infer<typeof embeddingRequest>;

export const embeddingList = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        object: z.literal('embedding'),
        index: z.int().describe('Index of the input.'),
        embedding: z.union([z.array(z.number()), z.string()]).describe('Vector of unit length.'),
      }),
    ),
    model: z.string(),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ id: 'EmbeddingList' });
export type EmbeddingList = z.infer<typeof embeddingList>;
