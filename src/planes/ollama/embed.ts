import type { Engine } from '../../engine/index.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { embed, inDecimals, requireDimensions, written } from '../turn/embedding.ts';
import type { Visit } from '../turn/respond.ts';
import { toInputs } from '../v1/embeddings.ts';
import { modelRefusals } from './answers.ts';
import { Clock } from './clock.ts';
import {
  embedAnswer,
  embeddingsAnswer,
  embeddingsRequest,
  embedRequest,
} from '../../wires/ollama/embed-schema.ts';
import { nameOf, useModel } from './model.ts';

export function embedRoutes(resident: Resident) {
  const several = defineRoute({
    method: 'POST',
    path: '/api/embed',
    operationId: 'ollamaEmbed',
    summary: 'Texts as vectors',
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
      const { embeddings, promptTokens } = await vectorsOf(engine, input ?? [], wanted);
      return Response.json({ model, embeddings, ...clock.loading(), prompt_eval_count: promptTokens });
    },
  });

  const one = defineRoute({
    method: 'POST',
    path: '/api/embeddings',
    operationId: 'ollamaEmbeddings',
    summary: 'A text as a vector',
    description: 'The older form of POST /api/embed.',
    body: embeddingsRequest,
    looseBody: true,
    completion: { wire: 'ollama', operation: 'embeddings' },
    answers: {
      200: { description: 'The vector.', content: { 'application/json': embeddingsAnswer } },
      ...modelRefusals,
    },
    async handle({ body, signal, over, work }) {
      const { engine } = await useModel(resident, nameOf(body), { signal, over, work }, 'embed');
      const made = await vectorsOf(engine, body.prompt || [], { truncate: true, signal, work });
      return Response.json({ embedding: made.embeddings[0] ?? [] });
    },
  });
  return [several, one];
}

interface Wanted extends Pick<Visit, 'signal' | 'work'> {
  readonly truncate: boolean;
  readonly dimensions?: number | null | undefined;
}

async function vectorsOf(engine: Engine, input: string | string[], { truncate, ...wanted }: Wanted) {
  requireDimensions(engine.model, wanted.dimensions);
  if (typeof input !== 'string' && input.length === 0) return { embeddings: [], promptTokens: 0 };
  const made = await embed(engine, await toInputs(engine, input, truncate), wanted);
  return { embeddings: await written(made.embeddings, inDecimals), promptTokens: made.promptTokens };
}
