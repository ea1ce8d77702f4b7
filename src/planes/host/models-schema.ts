import { z } from 'zod';

const count = z.int().min(0);

const hostModel = z.object({
  name: z.string().describe('The name by which requests use it.'),
  id: z.string().optional().describe('Its own id, which requests may use too; only of a loaded model.'),
  format: z.string().describe('`gguf`, `safetensors` or `mlc`.'),
  architecture: z.string(),
  parameters: count,
  quantization: z.string(),
  kind: z
    .enum(['generate', 'embed', 'rerank'])
    .nullable()
    .describe('What it is for; null where its header cannot be read.'),
  size_bytes: count.describe('Size of its files.'),
  modified_at: z.iso.datetime(),
  role: z
    .enum(['resident', 'embedding', 'beside', 'draft'])
    .nullable()
    .describe('What it is to the host now; null: it is not loaded.'),
  needs: z
    .object({ bytes: count, context: count })
    .nullable()
    .describe('Memory for one sequence at the default context; null where it is not known.'),
  memory_bytes: count.optional().describe('Device memory that it takes; only of a loaded model.'),
  problem: z.string().optional().describe('Why it cannot be used; absent: it can.'),
  fit: z.object({
    verdict: z
      .enum(['loaded', 'fits', 'shorter_context', 'too_large', 'unusable', 'unknown'])
      .describe('`shorter_context`: only with less than its default context. `unknown`: only loading tells.'),
    reason: z.string().optional().describe('Absent where it fits.'),
  }),
  removable: z.boolean().describe('Whether `DELETE /api/delete` deletes it now.'),
});
export type HostModel = z.infer<typeof hostModel>;

export const hostModels = z
  .object({
    loading: z
      .enum(['none', 'replace', 'beside'])
      .describe(
        'What a request that names another model does: nothing, load it in place of the resident one (`--swap`), or beside the loaded ones (`--resident`).',
      ),
    available_bytes: count
      .nullable()
      .describe('Memory for another model; null where the adapter does not tell its memory.'),
    models: z.array(hostModel),
  })
  .meta({ id: 'HostModels' });
export type HostModels = z.infer<typeof hostModels>;
