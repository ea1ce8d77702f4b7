import { z } from 'zod';
import { generationSettings } from '../../wires/llama-cpp/answer-schema.ts';

export const props = z
  .object({
    default_generation_settings: z.object({
      n_ctx: z.int(),
      params: generationSettings.describe('Settings of a request without options; a seed of -1 is random.'),
    }),
    total_slots: z.int().describe('Answers that run at the same time.'),
    model_alias: z.string(),
    model_path: z.string().describe('Id of the model; paths are not disclosed.'),
    chat_template: z.string().describe('Empty where the model has none.'),
    chat_template_caps: z.object({}),
    modalities: z.object({ vision: z.boolean(), audio: z.boolean() }),
    pooling_type: z
      .string()
      .describe(
        'How embeddings are pooled: `last` for a model that generates, `rank` for one that ranks documents.',
      ),
    bos_token: z.string(),
    eos_token: z.string(),
    build_info: z.string(),
    is_sleeping: z.boolean(),
  })
  .meta({ id: 'LlamaCppProps' });
export type Props = z.infer<typeof props>;

export const slots = z
  .array(
    z.object({
      id: z.int(),
      n_ctx: z.int(),
      is_processing: z.boolean().describe('True for as many slots as answers are running.'),
    }),
  )
  .meta({ id: 'LlamaCppSlots' });
export type Slots = z.infer<typeof slots>;
