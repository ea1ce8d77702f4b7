import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { embed } from '../turn/embedding.ts';
import { modelErrorResponses } from './error-responses.ts';
import { AnswerClock } from './answer-clock.ts';
import {
  embedAnswer,
  embeddingsAnswer,
  embeddingsRequest,
  embedRequest,
} from '../../wires/ollama/embed-schema.ts';
import { requireModelName, useModel } from './model.ts';

/** Result for a request without input, which only loads the model. */
const emptyResult = { vectors: [], promptTokens: 0 };

export function embedRoutes(resident: Resident) {
  const embedMany = defineRoute({
    method: 'POST',
    path: '/api/embed',
    operationId: 'ollamaEmbed',
    summary: 'Embed texts',
    body: embedRequest,
    acceptsLooseContentType: true,
    completion: { wire: 'ollama', operation: 'embeddings' },
    responses: {
      200: {
        description: 'A vector of unit length for each text, in order.',
        content: { 'application/json': embedAnswer },
      },
      ...modelErrorResponses,
    },
    async handle({ body, signal, finished, span }) {
      const clock = new AnswerClock();
      const model = requireModelName(body);
      const use = { requestedModel: model, keepAlive: body.keep_alive };
      const { engine } = await useModel(resident, use, { signal, finished, span }, 'embed');
      clock.markLoaded();
      const { input, dimensions } = body;
      const options = { truncate: body.truncate !== false, dimensions, signal, span };
      const { vectors: embeddings, promptTokens } =
        input && input.length > 0 ? await embed(engine, input, options) : emptyResult;
      return Response.json({ model, embeddings, ...clock.loadDurations(), prompt_eval_count: promptTokens });
    },
  });

  const embedOne = defineRoute({
    method: 'POST',
    path: '/api/embeddings',
    operationId: 'ollamaEmbeddings',
    summary: 'Embed a text',
    description: 'Older form of POST /api/embed.',
    body: embeddingsRequest,
    acceptsLooseContentType: true,
    completion: { wire: 'ollama', operation: 'embeddings' },
    responses: {
      200: { description: 'The vector.', content: { 'application/json': embeddingsAnswer } },
      ...modelErrorResponses,
    },
    async handle({ body, signal, finished, span }) {
      const use = { requestedModel: requireModelName(body), keepAlive: body.keep_alive };
      const { engine } = await useModel(resident, use, { signal, finished, span }, 'embed');
      const options = { truncate: true, signal, span };
      const { vectors } = body.prompt ? await embed(engine, body.prompt, options) : emptyResult;
      return Response.json({ embedding: vectors[0] ?? [] });
    },
  });
  return [embedMany, embedOne];
}
