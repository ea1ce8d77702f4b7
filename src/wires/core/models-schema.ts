import { z } from 'zod';

export const modelEntry = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    type: z.literal('model').describe("Anthropic's name for `object`."),
    display_name: z.string(),
    created: z.int().describe('Time of loading; for a stored model, the last change of its files.'),
    created_at: z.iso.datetime(),
    owned_by: z.string(),
    alias_of: z.string().optional().describe('For an alias: the name of its model (`--alias`).'),
    architecture: z.string(),
    parameters: z.int(),
    quantization: z.string(),
    context_length: z
      .int()
      .optional()
      .describe(
        'Tokens of prompt and answer together, of a text to embed, or of a query and a document. Resident model only.',
      ),
    kind: z
      .enum(['generate', 'embed', 'rerank'])
      .optional()
      .describe('What the model is for. A model that generates also embeds. Resident model only.'),
    embedding_dimensions: z
      .int()
      .optional()
      .describe('Elements of an embedding; absent where the model makes none. Resident model only.'),
    pooling: z
      .enum(['mean', 'cls', 'last', 'rank'])
      .optional()
      .describe(
        'How embeddings are pooled: as the file says; `last` for a model that generates, `rank` for one that ranks documents. Resident model only.',
      ),
    memory_bytes: z
      .int()
      .optional()
      .describe('Device memory: weights, caches and workspace. Resident model only.'),
    digest: z.string().optional().describe('Resident model only.'),
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
