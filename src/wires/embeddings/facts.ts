import { z } from 'zod';
import type { Json } from '../../util/json.ts';
import { routedMembers } from '../chat/request-schema.ts';
import { Measure } from '../core/measure.ts';
import { eachOf, text } from '../core/members.ts';
import { checked } from '../core/violations.ts';
import { embeddingMembers } from './server-schema.ts';
import type { EmbeddingInput, EmbeddingsFacts } from './types.ts';

export const embeddingsBody = z
  .looseObject({ model: routedMembers.model, ...embeddingMembers, user: text.nullish() })
  .meta({ id: 'EmbeddingRequest' });

/**
 * Reads what the gateway needs to know of a request; checks the members that OpenAI defines.
 * @throws WireError 400 with all violations
 */
export function embeddingsFacts(body: Json): EmbeddingsFacts {
  const { model, input, encoding_format: format, dimensions } = checked(embeddingsBody, body);
  const inputs = eachOf(input);
  const measure = new Measure();
  for (const one of inputs) measure.part(one);
  return {
    model,
    stream: false,
    includeUsage: false,
    maxTokens: 0,
    answers: inputs.length,
    needs: [{ cap: 'embeddings', param: 'model' }],
    ...measure.counts,
    inputs,
    encoding: format ?? 'float',
    dimensions: dimensions ?? undefined,
  };
}

/** Bytes of a text; a token counts as one byte. */
export const bytesOf = (input: EmbeddingInput): number =>
  typeof input === 'string' ? Buffer.byteLength(input) : input.length;
