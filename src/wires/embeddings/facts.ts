import { z } from 'zod';
import type { Json } from '../../util/json.ts';
import { routedMembers } from '../chat/request-schema.ts';
import { InputCounter } from '../core/input-counter.ts';
import { splitInputs, text } from '../core/members.ts';
import { parseOrThrow } from '../core/violations.ts';
import { embeddingMembers } from './server-schema.ts';
import type { EmbeddingInput, EmbeddingsFacts } from './types.ts';

export const embeddingsBody = z
  .looseObject({ model: routedMembers.model, ...embeddingMembers, user: text.nullish() })
  .meta({ id: 'EmbeddingRequest' });

/**
 * Reads what the gateway needs to know of a request; checks the members that OpenAI defines.
 * @throws WireError 400 with all violations
 */
export function readEmbeddingsFacts(body: Json): EmbeddingsFacts {
  const { model, input, encoding_format: format, dimensions } = parseOrThrow(embeddingsBody, body);
  const inputs = splitInputs(input);
  const counter = new InputCounter();
  for (const element of inputs) counter.addPart(element);
  return {
    model,
    stream: false,
    includeUsage: false,
    maxTokens: 0,
    answers: inputs.length,
    needs: [{ cap: 'embeddings', param: 'model' }],
    ...counter.counts,
    inputs,
    encoding: format ?? 'float',
    dimensions: dimensions ?? undefined,
  };
}

/** Bytes of a text; a token counts as one byte. */
export const countBytes = (input: EmbeddingInput): number =>
  typeof input === 'string' ? Buffer.byteLength(input) : input.length;
