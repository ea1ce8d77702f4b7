import type { z } from 'zod';
import { invalidBody } from '../../http/violations.ts';
import type { ModelCard, ModelDefaults, ModelStore, StoredModel } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import type { ReadyModel, Resident, Visitor } from '../resident.ts';
import type { modelMembers } from '../../wires/ollama/options-schema.ts';
import { hubName } from '../turn/identity.ts';

export function nameOf({ model, name }: z.infer<z.ZodObject<typeof modelMembers>>): string {
  const given = model || name;
  if (given) return given;
  throw invalidBody([{ path: 'model', message: 'is required: name a model of GET /api/tags' }]);
}

/** Leases the model that a request names. */
export async function useModel(
  resident: Resident,
  asked: string,
  visit: Visitor,
  kind?: ModelCard['kind'],
): Promise<ReadyModel> {
  try {
    return await resident.use(asked, visit, kind);
  } catch (error) {
    throw error instanceof HttpError && error.code === 'model_not_found'
      ? notFound(asked, resident.engine?.model.id)
      : error;
  }
}

/** The stored model that a request names. @throws HttpError 404 */
export async function requireStored(store: ModelStore, asked: string): Promise<StoredModel> {
  const found = await store.find(asked);
  if (found) return found;
  throw notFound(asked);
}

/** The stored model that a request names, or the resident model, which may be stored elsewhere. */
export async function requireKnown(
  store: ModelStore,
  resident: Resident,
  asked: string,
): Promise<StoredModel> {
  const { state } = resident;
  const named = asked.replace(/:latest$/, '');
  if (state.kind === 'ready' && state.engine.model.id === named)
    return { name: named, location: state.location };
  return await requireStored(store, asked);
}

/** The beginning of the message is Ollama's, because clients match it. */
function notFound(asked: string, resident?: string): HttpError {
  const next = hubName.test(asked) ? 'pull it first, with POST /api/pull' : 'GET /api/tags lists the models';
  const there = resident === undefined ? '' : `the resident model is '${resident}'; `;
  const message = `model '${asked.slice(0, 200)}' not found; ${there}${next}`;
  return new HttpError(404, 'model_not_found', message, { param: 'model' });
}

const residentDefaults = new WeakMap<ReadyModel, Promise<ModelDefaults>>();

/** Request defaults that the model was created with. */
export async function defaultsOf(
  store: ModelStore,
  asked: string,
  ready: ReadyModel,
): Promise<ModelDefaults> {
  const { id } = ready.engine.model;
  if (asked.replace(/:latest$/, '') !== id) {
    const stored = await store.find(asked);
    return stored ? await store.defaults(stored) : {};
  }
  const known = residentDefaults.get(ready) ?? store.defaults({ name: id, location: ready.location });
  residentDefaults.set(ready, known);
  return await known;
}
