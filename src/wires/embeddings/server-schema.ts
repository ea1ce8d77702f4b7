import { z } from 'zod';
import { name, text, textsOrIds, whole, requestBody } from '../core/members.ts';

const most = { count: 2048, error: 'at most 2048 inputs' };

/** Members that the gateway checks as well. */
export const embeddingMembers = {
  input: textsOrIds(text, most),
  encoding_format: z
    .enum(['float', 'base64'], { error: "expected 'float' or 'base64'" })
    .nullish()
    .describe('Numbers, or their 32-bit floats (little-endian) in base64. Default `float`.'),
  dimensions: whole(1).describe(
    "So many of the first elements, scaled to unit length again. Default: all of the model's.",
  ),
};

export const embeddingRequest = requestBody('EmbeddingRequest', {
  model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
  ...embeddingMembers,
  input: textsOrIds(name, most).describe(
    'Texts get the special tokens that the model wants around them; those written in them are read as tokens. ' +
      'What some models expect before a query or a document (`search_query: `) is yours to write. Token ids are ' +
      'taken as they stand.',
  ),
});
export type EmbeddingRequest = z.infer<typeof embeddingRequest>;

export const embeddingList = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        object: z.literal('embedding'),
        index: z.int().describe("The input's."),
        embedding: z.union([z.array(z.number()), z.string()]).describe('Of unit length.'),
      }),
    ),
    model: z.string(),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ id: 'EmbeddingList' });
export type EmbeddingList = z.infer<typeof embeddingList>;
