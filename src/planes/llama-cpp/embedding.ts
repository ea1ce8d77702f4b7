import { z } from 'zod';
import { invalidBody } from '../../http/violations.ts';
import { unavailable } from './refusals.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { embed } from '../turn/embedding.ts';
import { isOneOf, refused, requestBody, text } from '../../wires/core/members.ts';
import { embeddingRequest } from '../../wires/embeddings/server-schema.ts';

const { input } = embeddingRequest.shape;

const request = requestBody('LlamaCppEmbeddingRequest', {
  model: text.nullish().describe('The id of the resident model. Default: that model.'),
  content: input.nullish().describe('A text, token ids, or an array of either.'),
  input: input.nullish().describe('Alias of `content`, which takes precedence.'),
  embd_normalize: refused('vectors have unit length here (2); leave it out', isOneOf(2)),
});

const answer = z
  .array(
    z.object({
      index: z.int().describe('Index of the input.'),
      embedding: z.array(z.array(z.number())).describe('One vector, of unit length.'),
    }),
  )
  .meta({ id: 'LlamaCppEmbeddings' });

/** `/embedding` and its alias `/embeddings`. */
export function embeddingRoutes(resident: Resident) {
  return [
    { path: '/embedding', operationId: 'llamaCppEmbedding' },
    { path: '/embeddings', operationId: 'llamaCppEmbeddings' },
  ].map((place) =>
    defineRoute({
      method: 'POST',
      ...place,
      summary: 'Embed texts, in the format of llama.cpp',
      body: request,
      looseBody: true,
      completion: { wire: 'llama-cpp', operation: 'embeddings' },
      answers: {
        200: { description: 'A vector for each input, in order.', content: { 'application/json': answer } },
        ...unavailable,
      },
      async handle({ body, signal, over, work }) {
        const given = body.content ?? body.input;
        if (given === null || given === undefined)
          throw invalidBody([{ path: 'content', message: '"content" is required' }]);
        const { engine } = await resident.use(body.model || undefined, { signal, over, work }, 'embed');
        const { vectors } = await embed(engine, given, { signal, work });
        return Response.json(vectors.map((vector, index) => ({ index, embedding: [vector] })));
      },
    }),
  );
}
