import { z } from 'zod';
import { list } from '../../http/schema/list.ts';

const inputForm = 'expected a text, an array of texts, an array of token ids, or an array of those';
const text = z.string({ error: 'expected a text' }).min(1, 'must not be empty');
const tokenId = z.int({ error: 'expected a token id' }).min(0, 'expected a token id');
const isTokenId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const several = {
  error: inputForm,
  empty: 'must not be empty',
  most: { count: 2048, error: 'at most 2048 inputs' },
};
const ids = list(tokenId, { error: inputForm, empty: 'must not be empty' }, isTokenId);
const count = 'expected a whole number, at least 1';

export const embeddingRequest = z
  .object(
    {
      model: z
        .string({ error: 'expected a text' })
        .nullish()
        .describe('The id of the resident model, from GET /v1/models. Default: that model.'),
      input: z
        .union([text, list(text, several), ids, list(ids, several)], { error: inputForm })
        .describe(
          'Texts get the special tokens that the model wants around them; those written in them are read as tokens. ' +
            'What some models expect before a query or a document (`search_query: `) is yours to write. Token ids are ' +
            'taken as they stand.',
        ),
      encoding_format: z
        .enum(['float', 'base64'], { error: "expected 'float' or 'base64'" })
        .nullish()
        .describe('Numbers, or their 32-bit floats (little-endian) in base64. Default `float`.'),
      dimensions: z
        .int({ error: count })
        .min(1, count)
        .nullish()
        .describe("So many of the first elements, scaled to unit length again. Default: all of the model's."),
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'EmbeddingRequest' });
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
