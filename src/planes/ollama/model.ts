import type { z } from 'zod';
import { invalidBodyError } from '../../http/violations.ts';
import type { ModelCard, ModelDefaults, ModelStore, StoredModel } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { stripLatestTag } from '../model-aliases.ts';
import type { ReadyModel, Resident, LeaseRequest } from '../resident.ts';
import { isZeroDuration, type KeepAlive, type modelMembers } from '../../wires/ollama/options-schema.ts';
import { hubNamePattern } from '../turn/identity.ts';

export function requireModelName({ model, name }: z.infer<z.ZodObject<typeof modelMembers>>): string {
  const modelName = model || name;
  if (modelName) return modelName;
  throw invalidBodyError([{ path: 'model', message: 'is required: name a model of GET /api/tags' }]);
}

/** A request for a model, with how long it is to stay. */
interface ModelUse {
  /** Name of the model. */
  readonly requestedModel: string;
  readonly keepAlive: KeepAlive;
}

/** Leases the model that a request names. Where the host keeps several, a duration of zero closes it afterwards. */
export async function useModel(
  resident: Resident,
  { requestedModel, keepAlive }: ModelUse,
  lease: LeaseRequest,
  kind?: ModelCard['kind'],
): Promise<ReadyModel> {
  const ready = await withOllamaErrors(resident, requestedModel, () =>
    resident.acquire(requestedModel, lease, kind),
  );
  if (resident.keepsSeveral && isZeroDuration(keepAlive)) resident.unload(ready.location);
  return ready;
}

/** Where the host keeps several models, closes the one that a request names as soon as it is unused. */
export async function unloadModel(resident: Resident, requestedModel: string): Promise<void> {
  const { location } = await withOllamaErrors(resident, requestedModel, () =>
    resident.resolveModel(requestedModel),
  );
  resident.unload(location);
}

async function withOllamaErrors<Value>(
  resident: Resident,
  requestedModel: string,
  find: () => Promise<Value>,
): Promise<Value> {
  try {
    return await find();
  } catch (error) {
    throw error instanceof HttpError && error.code === 'model_not_found'
      ? notFoundError(requestedModel, resident.engine?.model.id)
      : error;
  }
}

/** The stored model that a request names. @throws HttpError 404 */
export async function requireStoredModel(store: ModelStore, requestedModel: string): Promise<StoredModel> {
  const storedModel = await store.find(requestedModel);
  if (storedModel) return storedModel;
  throw notFoundError(requestedModel);
}

/** The stored model that a request names or means by an alias, or the resident model, which may be stored elsewhere. */
export async function requireStoredOrResident(
  store: ModelStore,
  resident: Resident,
  requestedModel: string,
): Promise<StoredModel> {
  const name = resident.aliases.resolve(requestedModel) ?? resident.requireModel().engine.model.id;
  const resolvedName = stripLatestTag(name);
  const loaded = resident.models.find(({ engine }) => engine.model.id === resolvedName);
  if (loaded) return { name: resolvedName, location: loaded.location };
  return await requireStoredModel(store, name);
}

/** The beginning of the message is Ollama's, because clients match it. */
function notFoundError(requestedModel: string, resident?: string): HttpError {
  const hint = hubNamePattern.test(requestedModel)
    ? 'pull it first, with POST /api/pull'
    : 'GET /api/tags lists the models';
  const residentText = resident === undefined ? '' : `the resident model is '${resident}'; `;
  const message = `model '${requestedModel.slice(0, 200)}' not found; ${residentText}${hint}`;
  return new HttpError(404, 'model_not_found', message, { param: 'model' });
}

const residentDefaults = new WeakMap<ReadyModel, Promise<ModelDefaults>>();

/** Request defaults that the model was created with. @param requestedModel its name, not an alias */
export async function readModelDefaults(
  resident: Resident,
  store: ModelStore,
  requestedModel: string,
  ready: ReadyModel,
): Promise<ModelDefaults> {
  const { stored } = await resident.resolveModel(requestedModel);
  // A copy has defaults of its own, which can change while its weights are loaded.
  if (stored && stored.location !== ready.location) return await store.readDefaults(stored);
  const { id } = ready.engine.model;
  const defaults = residentDefaults.get(ready) ?? store.readDefaults({ name: id, location: ready.location });
  residentDefaults.set(ready, defaults);
  return await defaults;
}
