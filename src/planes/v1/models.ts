import { openaiErrorResponse, openaiErrorResponses } from '../error-schema.ts';
import type { ModelRow, ModelStore } from '../model-store.ts';
import { stripLatestTag } from '../model-aliases.ts';
import { modelLoadingError, type ReadyModel, type Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { modelNotFoundError } from '../turn/identity.ts';
import { type ModelEntry, type ModelList, modelEntry, modelList } from '../../wires/core/models-schema.ts';

export function modelRoutes(resident: Resident, store: Pick<ModelStore, 'list'>) {
  const listModels = defineRoute({
    method: 'GET',
    path: '/v1/models',
    operationId: 'listModels',
    summary: 'List the loaded models, with --swap or --resident also the stored ones',
    description:
      "Each entry has the members of OpenAI's and Anthropic's lists. A stored model is listed under its stored name, and also under its own id once it has been resident. The aliases of `--alias` come last, with `alias_of`.",
    responses: {
      200: {
        description: 'The resident model first, then the embedding model, then others that are loaded.',
        content: { 'application/json': modelList },
      },
      503: openaiErrorResponse('The model is loading.'),
    },
    async handle() {
      const { state } = resident;
      if (state.kind === 'loading' && state.isFirst) throw modelLoadingError();
      const rows = resident.canLoad ? await usableRows(store) : [];
      const aliases = await aliasEntries(resident, store);
      const own = [...loadedEntries(resident, rows), ...storedEntries(resident, rows)];
      const names = new Set(aliases.map(({ id }) => id));
      const data = withoutRepeatedIds([...own.filter(({ id }) => !names.has(id)), ...aliases]);
      const ids = data.map(({ id }) => id);
      const answer: ModelList = {
        object: 'list',
        data,
        has_more: false,
        first_id: ids[0] ?? null,
        last_id: ids.at(-1) ?? null,
      };
      return Response.json(answer);
    },
  });

  const getModel = defineRoute({
    method: 'GET',
    path: '/v1/models/{id}',
    isCatchAll: true,
    operationId: 'getModel',
    summary: 'Get a model',
    description: 'Accepts any name that a request may use as `model`. Slashes in ids need no encoding.',
    params: { id: 'Id of the model.' },
    responses: {
      200: { description: 'The model.', content: { 'application/json': modelEntry } },
      404: openaiErrorResponses[404],
      503: openaiErrorResponse('No model is resident and none can be loaded, or the model is loading.'),
    },
    async handle({ params }) {
      const requestedModel = params['id'] ?? '';
      const { location, stored: storedModel } = await resident.resolveModel(requestedModel);
      if (resident.aliases.has(requestedModel)) {
        const entries = await aliasEntries(resident, store);
        const entry = entries.find(({ id: alias }) => alias === stripLatestTag(requestedModel));
        if (entry) return Response.json(entry);
      }
      const id = storedModel?.name ?? stripLatestTag(requestedModel);
      const loaded = resident.loadedAt(location);
      if (loaded) return Response.json(residentEntry(loaded, id));
      const row = storedModel && (await usableRows(store)).find((each) => each.location === location);
      if (row) return Response.json(storedEntry(row, id));
      const known = resident.findKnownModel(location);
      if (known) return Response.json(commonMembers(id, known.loadedAt, known.model));
      throw modelNotFoundError(requestedModel, resident.engine?.model.id, 'GET /v1/models');
    },
  });
  return [listModels, getModel];
}

/** Entries for the ids of the loaded models, except for an id that is the name of another stored model. */
function loadedEntries({ models }: Resident, rows: readonly ModelRow[]): ModelEntry[] {
  const isNameOfAnother = ({ engine, location }: ReadyModel) =>
    rows.some((row) => row.location === location) &&
    rows.some((row) => row.location !== location && row.name === engine.model.id);
  return models
    .filter((model) => !isNameOfAnother(model))
    .map((model) => residentEntry(model, model.engine.model.id));
}

/** Entries for the names of the stored models that a request may use, and then for the ids of those that were loaded. */
function storedEntries(resident: Resident, rows: readonly ModelRow[]): ModelEntry[] {
  const entry = (row: ModelRow, id: string) => {
    const loaded = resident.loadedAt(row.location);
    return loaded ? residentEntry(loaded, id) : storedEntry(row, id);
  };
  const byId = rows.flatMap((row) => {
    const id = resident.findKnownModel(row.location)?.model.id;
    return id === undefined ? [] : [entry(row, id)];
  });
  return [...rows.map((row) => entry(row, row.name)), ...byId];
}

/** Where several models have an id, a request gets the first one. */
const withoutRepeatedIds = (entries: readonly ModelEntry[]): ModelEntry[] =>
  entries.filter(({ id }, at) => entries.findIndex((entry) => entry.id === id) === at);

/** Entries for the aliases of usable models. */
async function aliasEntries(resident: Resident, store: Pick<ModelStore, 'list'>): Promise<ModelEntry[]> {
  const aliases = await resident.listAliases();
  if (aliases.length === 0) return [];
  const rows = await usableRows(store);
  return aliases.flatMap(({ name, location }): ModelEntry[] => {
    const loaded = resident.loadedAt(location);
    if (loaded) return [{ ...residentEntry(loaded, name), alias_of: loaded.engine.model.id }];
    const row = rows.find((each) => each.location === location);
    return row ? [{ ...storedEntry(row, name), alias_of: row.name }] : [];
  });
}

const usableRows = async (store: Pick<ModelStore, 'list'>): Promise<ModelRow[]> =>
  (await store.list()).filter(({ problem }) => problem === undefined);

function residentEntry({ engine, loadedAt }: ReadyModel, id: string): ModelEntry {
  const { model } = engine;
  const { kind, embeddingDimensions, pooling, contextLength, digest } = model;
  return {
    ...commonMembers(id, loadedAt, model),
    kind,
    context_length: contextLength,
    ...(kind === 'rerank' ? {} : { embedding_dimensions: embeddingDimensions }),
    pooling,
    memory_bytes: engine.stats().memoryBytes,
    digest,
  };
}

const storedEntry = (row: ModelRow, id: string): ModelEntry => commonMembers(id, row.modifiedAt, row);

const commonMembers = (
  id: string,
  date: Date,
  { architecture, parameters, quantization }: Pick<ModelRow, 'architecture' | 'parameters' | 'quantization'>,
): ModelEntry => ({
  id,
  object: 'model',
  type: 'model',
  display_name: id,
  created: Math.floor(date.getTime() / 1000),
  created_at: date.toISOString(),
  owned_by: 'lathe',
  architecture,
  parameters,
  quantization,
});
