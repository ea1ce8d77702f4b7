import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { flag, requestBodySchema, text, optionalInteger } from '../core/members.ts';
import { keepAlive, modelMembers, optionsMember } from './options-schema.ts';

const inputError = 'expected a text or an array of texts';
const most = { count: 2048, error: 'at most 2048 texts' };

export const embedRequest = requestBodySchema('OllamaEmbedRequest', {
  ...modelMembers,
  input: z
    .union([text, list(text, { error: inputError, max: most })], { error: inputError })
    .nullish()
    .describe('Without it the model is only loaded.'),
  truncate: flag
    .nullish()
    .describe('Truncate texts that are too long instead of refusing them. Default true.'),
  dimensions: optionalInteger(1).describe('Number of leading elements to return, rescaled to unit length.'),
  options: optionsMember,
  keep_alive: keepAlive,
});

export const embedAnswer = z
  .object({
    model: z.string(),
    embeddings: z.array(z.array(z.number())),
    total_duration: z.int().describe('Nanoseconds.'),
    load_duration: z.int().describe('Nanoseconds.'),
    prompt_eval_count: z.int(),
  })
  .meta({ id: 'OllamaEmbeddings' });

export const embeddingsRequest = requestBodySchema('OllamaEmbeddingsRequest', {
  ...modelMembers,
  prompt: text.nullish().describe('Without it the model is only loaded.'),
  options: optionsMember,
  keep_alive: keepAlive,
});

export const embeddingsAnswer = z.object({ embedding: z.array(z.number()) }).meta({ id: 'OllamaEmbedding' });
