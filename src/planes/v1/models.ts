import { openaiRefusal, openaiRefusals } from '../error-schema.ts';
import type { ModelRow, ModelStore } from '../model-store.ts';
import { loading, plainName, type ReadyModel, type Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { modelNotFound } from '../turn/identity.ts';
import { type ModelEntry, type ModelList, modelEntry, modelList } from '../../wires/core/models-schema.ts';

export function modelRoutes(resident: Resident, store: Pick<ModelStore, 'list'>) {
  const list = defineRoute({
    method: 'GET',
    path: '/v1/models',
    operationId: 'listModels',
    summary: 'List the resident model, with --swap also the stored ones',
    description:
      "Each entry has the members of OpenAI's and Anthropic's lists. A stored model is listed under its stored name, and also under its own id once it has been resident.",
    answers: {
      200: { description: 'The resident model first.', content: { 'application/json': modelList } },
      503: openaiRefusal('The model is loading.'),
    },
    async handle() {
      const { state } = resident;
      if (state.kind === 'loading' && state.first) throw loading();
      const own = state.kind === 'ready' ? [residentEntry(state, state.engine.model.id)] : [];
      const data = [...own, ...(resident.swaps ? await storedEntries(resident, store) : [])];
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

  const one = defineRoute({
    method: 'GET',
    path: '/v1/models/{id}',
    rest: true,
    operationId: 'getModel',
    summary: 'Get a model',
    description: 'Accepts any name that a request may use as `model`. Slashes in ids need no encoding.',
    params: { id: 'Id of the model.' },
    answers: {
      200: { description: 'The model.', content: { 'application/json': modelEntry } },
      404: openaiRefusals[404],
      503: openaiRefusal('No model is resident and none can be loaded, or the model is loading.'),
    },
    async handle({ params }) {
      const asked = params['id'] ?? '';
      const { location, stored } = await resident.named(asked);
      const id = stored?.name ?? plainName(asked);
      const { state } = resident;
      if (state.kind === 'ready' && state.location === location)
        return Response.json(residentEntry(state, id));
      const row = stored && (await usableRows(store)).find((each) => each.location === location);
      if (row) return Response.json(storedEntry(row, id));
      const known = resident.knownAt(location);
      if (known) return Response.json(common(id, known.loadedAt, known.model));
      throw modelNotFound(asked, resident.engine?.model.id, 'GET /v1/models');
    },
  });
  return [list, one];
}

/** Entries for the stored models that a request may name, and for the other names of the resident model. */
async function storedEntries(resident: Resident, store: Pick<ModelStore, 'list'>): Promise<ModelEntry[]> {
  const { state } = resident;
  const ready = state.kind === 'ready' ? state : undefined;
  const rows = await usableRows(store);
  return rows.flatMap((row) => {
    const isResident = ready?.location === row.location;
    const ids = new Set([row.name, resident.knownAt(row.location)?.model.id ?? row.name]);
    if (ready) ids.delete(ready.engine.model.id);
    return Array.from(ids, (id) => (ready && isResident ? residentEntry(ready, id) : storedEntry(row, id)));
  });
}

const usableRows = async (store: Pick<ModelStore, 'list'>): Promise<ModelRow[]> =>
  (await store.list()).filter(({ problem }) => problem === undefined);

function residentEntry({ engine: { model }, loadedAt }: ReadyModel, id: string): ModelEntry {
  const { embeddingDimensions: dimensions, contextLength, digest } = model;
  return {
    ...common(id, loadedAt, model),
    context_length: contextLength,
    ...(dimensions === undefined ? {} : { embedding_dimensions: dimensions }),
    digest,
  };
}

const storedEntry = (row: ModelRow, id: string): ModelEntry => common(id, row.modifiedAt, row);

const common = (
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
