import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { requestBody, text } from '../../wires/core/members.ts';
import { storeRefusals } from './answers.ts';
import { modelMembers } from '../../wires/ollama/options-schema.ts';
import { nameOf, requireKnown, requireStored } from './model.ts';

const deleteRequest = requestBody('OllamaDeleteRequest', modelMembers);

const copyRequest = requestBody('OllamaCopyRequest', {
  source: text.min(1, 'must not be empty').describe('A stored model.'),
  destination: text.min(1, 'must not be empty').describe('The new name.'),
});

const done = { 200: { description: 'Done; no body.' }, ...storeRefusals };

/** Ollama's clients expect an empty body. */
const empty = (): Response => new Response(null, { status: 200 });

export function manageRoutes(resident: Resident, store: ModelStore) {
  const remove = defineRoute({
    method: 'DELETE',
    path: '/api/delete',
    operationId: 'ollamaDelete',
    summary: 'Delete a stored model',
    description: 'The resident and the embedded model cannot be deleted.',
    body: deleteRequest,
    looseBody: true,
    answers: done,
    async handle({ body }) {
      await store.remove(await requireStored(store, nameOf(body)));
      return empty();
    },
  });
  const copy = defineRoute({
    method: 'POST',
    path: '/api/copy',
    operationId: 'ollamaCopy',
    summary: 'Copy a stored model to another name',
    description: 'Files are linked where the file system supports it, so a copy takes no space.',
    body: copyRequest,
    looseBody: true,
    answers: done,
    async handle({ body }) {
      await store.copy(await requireKnown(store, resident, body.source), body.destination);
      return empty();
    },
  });
  return [remove, copy];
}
