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
      .describe('Tokens of prompt and answer together, or of a text to embed. Resident model only.'),
    embedding_dimensions: z.int().optional().describe('Elements of an embedding. Resident model only.'),
    pooling: z
      .enum(['mean', 'cls', 'last'])
      .optional()
      .describe(
        'How embeddings are pooled: as the file says; `last` for a model that generates. Resident model only.',
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
