import { stripLatestTag } from '../model-aliases.ts';
import type { ModelRole, ModelRow, ModelStore } from '../model-store.ts';
import { formatBytes } from '../../engine/index.ts';
import { toModelRow } from '../ollama/tags.ts';
import type { ReadyModel, Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { type HostModel, type HostModels, hostModels } from './models-schema.ts';

interface Models {
  readonly store: Pick<ModelStore, 'list' | 'roleOf'>;
  /** Memory in bytes for all models; undefined where it is not known. */
  readonly memoryBytes: () => number | undefined;
}

export function hostModelsRoute(resident: Resident, { store, memoryBytes }: Models) {
  return defineRoute({
    method: 'GET',
    path: '/host/v1/models',
    operationId: 'getHostModels',
    summary: 'List all models with their roles, and whether they can be loaded',
    description:
      'The embedded model, the models of the data directory, also unusable ones, and loaded models from elsewhere.',
    responses: { 200: { description: 'The models.', content: { 'application/json': hostModels } } },
    async handle() {
      const rows = await store.list();
      const others = resident.models.filter(
        (model) => !rows.some(({ location }) => location === model.location),
      );
      const limit = memoryBytes();
      const available = limit === undefined ? undefined : Math.max(0, limit - fixedBytes(resident));
      const answer: HostModels = {
        loading: resident.loading,
        available_bytes: available ?? null,
        models: [...others.map(toModelRow), ...rows].map((row) => {
          const loaded = resident.loadedAt(row.location);
          const use = store.roleOf(row.location);
          return describe(row, { role: roleOf(resident, loaded, use), use, loaded, available });
        }),
      };
      return Response.json(answer);
    },
  });
}

/** Memory in bytes of the models that stay when another one is loaded. */
function fixedBytes({ canLoad, canReplaceResident, models, embeddingModel, engine }: Resident): number {
  const main = canLoad && !canReplaceResident ? engine : undefined;
  return models
    .filter((model) => model.engine === main || model === embeddingModel)
    .reduce((sum, model) => sum + model.engine.stats().memoryBytes, 0);
}

function roleOf(
  { engine, embeddingModel }: Resident,
  loaded: ReadyModel | undefined,
  use: ModelRole | undefined,
): HostModel['role'] {
  if (!loaded) return use === 'draft' ? 'draft' : null;
  if (loaded.engine === engine) return 'resident';
  return loaded === embeddingModel ? 'embedding' : 'beside';
}

interface Circumstances {
  readonly role: HostModel['role'];
  /** Also of a model that is being loaded. */
  readonly use: ModelRole | undefined;
  readonly loaded: ReadyModel | undefined;
  /** Memory in bytes for another model. */
  readonly available: number | undefined;
}

function describe(row: ModelRow, { role, use, loaded, available }: Circumstances): HostModel {
  const { memory, problem } = row;
  return {
    name: stripLatestTag(row.name),
    ...(loaded ? { id: loaded.engine.model.id } : {}),
    format: row.format,
    architecture: row.architecture,
    parameters: row.parameters,
    quantization: row.quantization,
    kind: loaded?.engine.model.kind ?? row.kind ?? null,
    size_bytes: row.sizeBytes,
    modified_at: row.modifiedAt.toISOString(),
    role,
    needs: memory ? { bytes: Math.ceil(memory.bytes), context: memory.context } : null,
    ...(loaded ? { memory_bytes: loaded.engine.stats().memoryBytes } : {}),
    ...(problem === undefined ? {} : { problem }),
    fit: loaded ? { verdict: 'loaded' } : judgeFit(row, available),
    removable: row.isStored && use === undefined,
  };
}

/** Whether a model fits into the memory for another one, and why not. */
function judgeFit({ memory, sizeBytes, problem }: ModelRow, available: number | undefined): HostModel['fit'] {
  if (problem !== undefined) return { verdict: 'unusable', reason: problem };
  if (!memory || available === undefined)
    return {
      verdict: 'unknown',
      reason: 'The adapter does not tell its memory. Loading tells how much is missing, if any is.',
    };
  const reason = `It needs ${formatBytes(memory.bytes)} for a sequence of ${memory.context} tokens, and ${formatBytes(available)} are available.`;
  if (memory.bytes <= available) return { verdict: 'fits' };
  return { verdict: sizeBytes < available ? 'shorter_context' : 'too_large', reason };
}
