import type { ModelInfo } from '../../engine/index.ts';
import { openaiError } from '../error-schema.ts';
import { loading, type Resident } from '../resident.ts';
import { defineRoute } from '../route.ts';
import { modelNotFound } from '../turn/identity.ts';
import { type ModelEntry, modelEntry, modelList } from './models-schema.ts';

export function modelRoutes(resident: Resident) {
  const list = defineRoute({
    method: 'GET',
    path: '/v1/models',
    operationId: 'listModels',
    summary: 'The resident model',
    answers: {
      200: { description: 'One model, or none.', content: { 'application/json': modelList } },
      503: { description: 'The model is loading.', content: { 'application/json': openaiError } },
    },
    handle() {
      const { state } = resident;
      if (state.kind === 'loading') throw loading();
      const data = state.kind === 'ready' ? [toEntry(state.engine.model, state.loadedAt)] : [];
      return Response.json({ object: 'list', data });
    },
  });

  const one = defineRoute({
    method: 'GET',
    path: '/v1/models/{id}',
    rest: true,
    operationId: 'getModel',
    summary: 'One model',
    description: 'Ids with slashes may be written as they are.',
    params: { id: "The model's id." },
    answers: {
      200: { description: 'The model.', content: { 'application/json': modelEntry } },
      404: { description: 'No such model.', content: { 'application/json': openaiError } },
      503: {
        description: 'No resident model, or it is loading.',
        content: { 'application/json': openaiError },
      },
    },
    handle({ params }) {
      const { engine, loadedAt } = resident.require();
      if (params['id'] !== engine.model.id) throw modelNotFound(params['id'] ?? '', engine.model.id);
      return Response.json(toEntry(engine.model, loadedAt));
    },
  });
  return [list, one];
}

const toEntry = (model: ModelInfo, loadedAt: Date): ModelEntry => ({
  id: model.id,
  object: 'model',
  created: Math.floor(loadedAt.getTime() / 1000),
  owned_by: 'lathe',
  architecture: model.architecture,
  parameters: model.parameters,
  quantization: model.quantization,
  context_length: model.contextLength,
  ...(model.embeddingDimensions === undefined ? {} : { embedding_dimensions: model.embeddingDimensions }),
  digest: model.digest,
});
