import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { requestBodySchema, text } from '../../wires/core/members.ts';
import { storeErrorResponses } from './error-responses.ts';
import { modelMembers } from '../../wires/ollama/options-schema.ts';
import { requireModelName, requireStoredOrResident, requireStoredModel } from './model.ts';

const deleteRequest = requestBodySchema('OllamaDeleteRequest', modelMembers);

const copyRequest = requestBodySchema('OllamaCopyRequest', {
  source: text.min(1, 'must not be empty').describe('A stored model.'),
  destination: text.min(1, 'must not be empty').describe('The new name.'),
});

const doneResponses = { 200: { description: 'Done; no body.' }, ...storeErrorResponses };

/** Ollama's clients expect an empty body. */
const createEmptyResponse = (): Response => new Response(null, { status: 200 });

export function manageRoutes(resident: Resident, store: ModelStore) {
  const remove = defineRoute({
    method: 'DELETE',
    path: '/api/delete',
    operationId: 'ollamaDelete',
    summary: 'Delete a stored model',
    description: 'Loaded models and the embedded model cannot be deleted.',
    body: deleteRequest,
    acceptsLooseContentType: true,
    responses: doneResponses,
    async handle({ body }) {
      await store.remove(await requireStoredModel(store, requireModelName(body)));
      return createEmptyResponse();
    },
  });
  const copy = defineRoute({
    method: 'POST',
    path: '/api/copy',
    operationId: 'ollamaCopy',
    summary: 'Copy a stored model to another name',
    description: 'Files are linked where the file system supports it, so a copy takes no space.',
    body: copyRequest,
    acceptsLooseContentType: true,
    responses: doneResponses,
    async handle({ body }) {
      await store.copy(await requireStoredOrResident(store, resident, body.source), body.destination);
      return createEmptyResponse();
    },
  });
  return [remove, copy];
}
