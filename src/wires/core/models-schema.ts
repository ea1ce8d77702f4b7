import { z } from 'zod';

export const modelEntry = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    type: z.literal('model').describe("Anthropic's name of `object`."),
    display_name: z.string(),
    created: z.int().describe('When it was loaded; of one that is only stored, when its files changed last.'),
    created_at: z.iso.datetime(),
    owned_by: z.string(),
    architecture: z.string(),
    parameters: z.int(),
    quantization: z.string(),
    context_length: z
      .int()
      .optional()
      .describe('Tokens of prompt and answer together, or of a text to embed; of the resident model.'),
    embedding_dimensions: z.int().optional().describe('Of a model that makes embeddings, and no text.'),
    digest: z.string().optional().describe('Of the resident model.'),
  })
  .meta({ id: 'Model' });
export type ModelEntry = z.infer<typeof modelEntry>;

export const modelList = z
  .object({
    object: z.literal('list'),
    data: z.array(modelEntry),
    has_more: z.literal(false),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .meta({ id: 'ModelList' });
export type ModelList = z.infer<typeof modelList>;
