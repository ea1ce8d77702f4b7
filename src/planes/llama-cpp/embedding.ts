import { z } from 'zod';
import { invalidBodyError } from '../../http/violations.ts';
import { unavailableResponses } from './error-responses.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { embed } from '../turn/embedding.ts';
import { isOneOf, refusedMember, requestBodySchema, text } from '../../wires/core/members.ts';
import { embeddingRequest } from '../../wires/embeddings/server-schema.ts';

const { input } = embeddingRequest.shape;

const request = requestBodySchema('LlamaCppEmbeddingRequest', {
  model: text.nullish().describe('The id of the resident model. Default: that model.'),
  content: input.nullish().describe('A text, token ids, or an array of either.'),
  input: input.nullish().describe('Alias of `content`, which takes precedence.'),
  embd_normalize: refusedMember('vectors have unit length here (2); leave it out', isOneOf(2)),
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
  ].map((endpoint) =>
    defineRoute({
      method: 'POST',
      ...endpoint,
      summary: 'Embed texts, in the format of llama.cpp',
      body: request,
      acceptsLooseContentType: true,
      completion: { wire: 'llama-cpp', operation: 'embeddings' },
      responses: {
        200: { description: 'A vector for each input, in order.', content: { 'application/json': answer } },
        ...unavailableResponses,
      },
      async handle({ body, signal, finished, span }) {
        const inputs = body.content ?? body.input;
        if (inputs === null || inputs === undefined)
          throw invalidBodyError([{ path: 'content', message: '"content" is required' }]);
        const { engine } = await resident.acquire(
          body.model || undefined,
          { signal, finished, span },
          'embed',
        );
        const { vectors } = await embed(engine, inputs, { signal, span });
        return Response.json(vectors.map((vector, index) => ({ index, embedding: [vector] })));
      },
    }),
  );
}
