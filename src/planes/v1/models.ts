import { openaiError } from '../error-schema.ts';
import type { ModelRow, ModelStore } from '../model-store.ts';
import { loading, plainName, type ReadyModel, type Resident } from '../resident.ts';
import { defineRoute } from '../route.ts';
import { modelNotFound } from '../turn/identity.ts';
import { type ModelEntry, type ModelList, modelEntry, modelList } from './models-schema.ts';

export function modelRoutes(resident: Resident, store: Pick<ModelStore, 'list'>) {
  const list = defineRoute({
    method: 'GET',
    path: '/v1/models',
    operationId: 'listModels',
    summary: 'The resident model; with --swap also the stored ones',
    description: "Each entry has the members of OpenAI's list and those of Anthropic's.",
    answers: {
      200: { description: 'The resident model first.', content: { 'application/json': modelList } },
      503: { description: 'The model is loading.', content: { 'application/json': openaiError } },
    },
    async handle() {
      const { state } = resident;
      if (state.kind === 'loading' && state.first) throw loading();
      const own = state.kind === 'ready' ? [residentEntry(state)] : [];
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
    async handle({ params }) {
      const asked = params['id'] ?? '';
      const ready = resident.require();
      const { id } = ready.engine.model;
      if (asked === id || plainName(asked) === id) return Response.json(residentEntry(ready));
      const stored = resident.swaps ? await storedEntries(resident, store) : [];
      const entry = stored.find((each) => each.id === asked || each.id === plainName(asked));
      if (!entry) throw modelNotFound(asked, id);
      return Response.json(entry);
    },
  });
  return [list, one];
}

/** What a request may name to have it loaded; not what is resident under its own name. */
async function storedEntries({ state }: Resident, store: Pick<ModelStore, 'list'>): Promise<ModelEntry[]> {
  const ready = state.kind === 'ready' ? state : undefined;
  const rows = await store.list();
  return rows
    .filter(({ problem, location }) => problem === undefined && location !== ready?.location)
    .map((row) => storedEntry(row));
}

function residentEntry({ engine: { model }, loadedAt }: ReadyModel): ModelEntry {
  const { embeddingDimensions: dimensions, contextLength, digest } = model;
  return {
    ...common(model.id, loadedAt, model),
    context_length: contextLength,
    ...(dimensions === undefined ? {} : { embedding_dimensions: dimensions }),
    digest,
  };
}

const storedEntry = (row: ModelRow): ModelEntry => common(row.name, row.modifiedAt, row);

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
