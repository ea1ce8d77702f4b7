import { z } from 'zod';

const details = z.object({
  parent_model: z.string(),
  format: z.string(),
  family: z.string(),
  families: z.array(z.string()),
  parameter_size: z.string(),
  quantization_level: z.string(),
});
export type Details = z.infer<typeof details>;

const commonMembers = {
  name: z.string(),
  model: z.string(),
  size: z.int().describe('Bytes of the files; in `/api/ps`, of the memory that the model takes.'),
  digest: z
    .string()
    .describe(
      '64 hex digits: the digest of the weights where they were read, else of the file names, sizes and times.',
    ),
  details,
};

export const tagsAnswer = z
  .object({ models: z.array(z.object({ ...commonMembers, modified_at: z.string() })) })
  .meta({ id: 'OllamaTags' });

export const psAnswer = z
  .object({
    models: z.array(
      z.object({
        ...commonMembers,
        expires_at: z
          .string()
          .describe(
            'Far in the future: models are closed for others, not by time. Now, after `keep_alive: 0`.',
          ),
        size_vram: z
          .int()
          .describe(
            'Bytes of device memory: weights, caches and workspace. Equals `size`: all are on the GPU.',
          ),
        context_length: z.int(),
      }),
    ),
  })
  .meta({ id: 'OllamaPs' });

export const capabilities = ['completion', 'tools', 'insert', 'thinking', 'embedding', 'rerank'] as const;
export type Capability = (typeof capabilities)[number];

export const showAnswer = z
  .object({
    modelfile: z.string(),
    parameters: z.string().describe('One default per line.'),
    template: z.string().describe("The model's own template, in Jinja."),
    system: z.string().optional(),
    details,
    model_info: z
      .record(z.string(), z.unknown())
      .describe('Metadata of the file; long lists only with `verbose`.'),
    capabilities: z.array(z.enum(capabilities)),
    modified_at: z.string(),
  })
  .meta({ id: 'OllamaShow' });

export const versionAnswer = z
  .object({
    version: z.string().describe('Ollama version that clients check for features.'),
    host_version: z.string(),
  })
  .meta({ id: 'OllamaVersion' });
export const statusAnswer = z
  .object({ cloud: z.object({ disabled: z.boolean(), source: z.string() }) })
  .meta({ id: 'OllamaStatus' });
export const runningText = z.string().meta({ id: 'OllamaRunning' });

export const progressLine = z
  .object({
    status: z.string(),
    digest: z.string().optional(),
    total: z.int().optional().describe('Bytes.'),
    completed: z.int().optional().describe('Bytes.'),
  })
  .meta({ id: 'OllamaProgress' });
