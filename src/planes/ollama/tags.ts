import type { ModelRow, ModelStore } from '../model-store.ts';
import type { ReadyModel, Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { type Details, psAnswer, tagsAnswer } from './model-schema.ts';

/** Expiry of a loaded model, far in the future, because no time ends it. */
const residentExpiryMs = 100 * 365 * 24 * 3600 * 1000;

export function listRoutes(resident: Resident, store: ModelStore) {
  const tags = defineRoute({
    method: 'GET',
    path: '/api/tags',
    operationId: 'ollamaTags',
    summary: 'List the stored models',
    description:
      'The embedded model, the models of the data directory, and the resident one. Unusable models are omitted; `lathe models list` shows why. The aliases of `--alias` come last, with `details.parent_model`.',
    responses: { 200: { description: 'The models.', content: { 'application/json': tagsAnswer } } },
    async handle() {
      const rows = await listUsableModels(resident, store);
      const models = rows.map((row) => ({
        ...toListEntry(row, resident),
        modified_at: row.modifiedAt.toISOString(),
      }));
      const aliases = await resident.listAliases();
      const aliasEntries = aliases.flatMap(({ name, location }) => {
        const at = rows.findIndex((row) => row.location === location);
        const entry = models[at];
        if (!entry) return [];
        const details = { ...entry.details, parent_model: entry.name };
        return [{ ...entry, name: withTag(name), model: withTag(name), details }];
      });
      return Response.json({ models: [...models, ...aliasEntries] });
    },
  });
  const ps = defineRoute({
    method: 'GET',
    path: '/api/ps',
    operationId: 'ollamaPs',
    summary: 'The loaded models',
    responses: {
      200: {
        description:
          'The resident model, the embedding model, and those that requests loaded, as far as there are any.',
        content: { 'application/json': psAnswer },
      },
    },
    async handle() {
      const rows = await listUsableModels(resident, store);
      const models = resident.models.flatMap((model) => {
        const { engine, location, loadedAt } = model;
        const row = rows.find((each) => each.location === location);
        if (!row) return [];
        const { memoryBytes } = engine.stats();
        const entry = {
          ...toListEntry(row, resident),
          size: memoryBytes,
          expires_at: (resident.isUnloading(model)
            ? new Date()
            : new Date(loadedAt.getTime() + residentExpiryMs)
          ).toISOString(),
          size_vram: memoryBytes,
          context_length: engine.model.contextLength,
        };
        return [entry];
      });
      return Response.json({ models });
    },
  });
  return [tags, ps];
}

/** Lists the usable models, the loaded ones first, even where they are not stored. */
async function listUsableModels(resident: Resident, store: ModelStore): Promise<ModelRow[]> {
  const rows = (await store.list()).filter(({ problem }) => problem === undefined);
  const loadedRows = resident.models.map(
    (model) => rows.find(({ location }) => location === model.location) ?? toModelRow(model),
  );
  return [...loadedRows, ...rows.filter((row) => !loadedRows.includes(row))];
}

/** A row for a loaded model that is not in the list of the store. */
export function toModelRow({ engine: { model }, location, loadedAt }: ReadyModel): ModelRow {
  return {
    // The model is not in the data directory, so slashes in its id do not separate a tag.
    name: `${model.id}:latest`,
    location,
    sizeBytes: model.sizeBytes,
    modifiedAt: loadedAt,
    digest: model.digest,
    format: 'gguf',
    architecture: model.architecture,
    parameters: model.parameters,
    quantization: model.quantization,
    kind: model.kind,
    memory: undefined,
    isStored: false,
    problem: undefined,
  };
}

/** Formats 3670016 as `3.7M`. */
function parameterSize(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)}B`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)}M` : `${(count / 1e3).toFixed(1)}K`;
}

/** Adds a tag, which clients expect: the file name where the model is in a folder. */
function withTag(name: string): string {
  if (name.includes(':')) return name;
  const slashIndex = name.lastIndexOf('/');
  return slashIndex === -1 ? `${name}:latest` : `${name.slice(0, slashIndex)}:${name.slice(slashIndex + 1)}`;
}

const toListEntry = (row: ModelRow, resident: Resident) => {
  const loadedDigest = resident.loadedAt(row.location)?.engine.model.digest;
  const name = withTag(row.name);
  return {
    name,
    model: name,
    size: row.sizeBytes,
    // The digest of the weights is known for the loaded model.
    digest: (loadedDigest ?? row.digest).replace(/^sha256:/, ''),
    details: toDetails(row),
  };
};

export const toDetails = ({ format, architecture, parameters, quantization }: ModelRow): Details => ({
  parent_model: '',
  format,
  family: architecture,
  families: [architecture],
  parameter_size: parameterSize(parameters),
  quantization_level: quantization,
});
