import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { flag, text } from '../../wires/core/members.ts';
import { modelMembers } from './model.ts';
import { keepAlive, optionsMember } from './options-schema.ts';

const inputForm = 'expected a text or an array of texts';
const most = { count: 2048, error: 'at most 2048 texts' };

export const embedRequest = z
  .object(
    {
      ...modelMembers,
      input: z
        .union([text, list(text, { error: inputForm, most })], { error: inputForm })
        .nullish()
        .describe('Without one, the model is only loaded.'),
      truncate: flag
        .nullish()
        .describe('Cut texts that are too long, rather than refuse them. Default true.'),
      dimensions: z
        .int({ error: 'expected a whole number, at least 1' })
        .min(1, 'expected a whole number, at least 1')
        .nullish()
        .describe('Only so many of the first elements, scaled to unit length again.'),
      options: optionsMember,
      keep_alive: keepAlive,
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'OllamaEmbedRequest' });

export const embedAnswer = z
  .object({
    model: z.string(),
    embeddings: z.array(z.array(z.number())),
    total_duration: z.int().describe('Nanoseconds.'),
    load_duration: z.int().describe('Nanoseconds.'),
    prompt_eval_count: z.int(),
  })
  .meta({ id: 'OllamaEmbeddings' });

export const embeddingsRequest = z
  .object(
    {
      ...modelMembers,
      prompt: text.nullish().describe('Without one, the model is only loaded.'),
      options: optionsMember,
      keep_alive: keepAlive,
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'OllamaEmbeddingsRequest' });

export const embeddingsAnswer = z.object({ embedding: z.array(z.number()) }).meta({ id: 'OllamaEmbedding' });
