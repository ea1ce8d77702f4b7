import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { embed } from '../turn/embedding.ts';
import { modelRefusals } from './answers.ts';
import { Clock } from './clock.ts';
import {
  embedAnswer,
  embeddingsAnswer,
  embeddingsRequest,
  embedRequest,
} from '../../wires/ollama/embed-schema.ts';
import { nameOf, useModel } from './model.ts';

/** Result for a request without input, which only loads the model. */
const nothing = { vectors: [], promptTokens: 0 };

export function embedRoutes(resident: Resident) {
  const several = defineRoute({
    method: 'POST',
    path: '/api/embed',
    operationId: 'ollamaEmbed',
    summary: 'Embed texts',
    body: embedRequest,
    looseBody: true,
    completion: { wire: 'ollama', operation: 'embeddings' },
    answers: {
      200: {
        description: 'A vector of unit length for each text, in order.',
        content: { 'application/json': embedAnswer },
      },
      ...modelRefusals,
    },
    async handle({ body, signal, over, work }) {
      const clock = new Clock();
      const model = nameOf(body);
      const { engine } = await useModel(resident, model, { signal, over, work }, 'embed');
      clock.loaded();
      const { input, dimensions } = body;
      const wanted = { truncate: body.truncate !== false, dimensions, signal, work };
      const { vectors: embeddings, promptTokens } =
        input && input.length > 0 ? await embed(engine, input, wanted) : nothing;
      return Response.json({ model, embeddings, ...clock.loading(), prompt_eval_count: promptTokens });
    },
  });

  const one = defineRoute({
    method: 'POST',
    path: '/api/embeddings',
    operationId: 'ollamaEmbeddings',
    summary: 'Embed a text',
    description: 'Older form of POST /api/embed.',
    body: embeddingsRequest,
    looseBody: true,
    completion: { wire: 'ollama', operation: 'embeddings' },
    answers: {
      200: { description: 'The vector.', content: { 'application/json': embeddingsAnswer } },
      ...modelRefusals,
    },
    async handle({ body, signal, over, work }) {
      const { engine } = await useModel(resident, nameOf(body), { signal, over, work }, 'embed');
      const wanted = { truncate: true, signal, work };
      const { vectors } = body.prompt ? await embed(engine, body.prompt, wanted) : nothing;
      return Response.json({ embedding: vectors[0] ?? [] });
    },
  });
  return [several, one];
}
