import { z } from 'zod';

export const modelEntry = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int().describe('When it was loaded.'),
    owned_by: z.string(),
    architecture: z.string(),
    parameters: z.int(),
    quantization: z.string(),
    context_length: z.int().describe('Tokens of prompt and answer together, or of a text to embed.'),
    embedding_dimensions: z.int().optional().describe('Of a model that makes embeddings, and no text.'),
    digest: z.string(),
  })
  .meta({ id: 'Model' });
export type ModelEntry = z.infer<typeof modelEntry>;

export const modelList = z
  .object({ object: z.literal('list'), data: z.array(modelEntry) })
  .meta({ id: 'ModelList' });
