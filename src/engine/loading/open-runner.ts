import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { chooseCapacity } from '../memory/capacity.ts';
import { matricesOf } from '../memory/capacity-advice.ts';
import { chooseEmbeddingCapacity } from '../memory/embedding-capacity.ts';
import { formatBytes } from '../format-bytes.ts';
import type { ModelFile } from '../formats/model-file.ts';
import { withTensorViews } from '../formats/tensor-views.ts';
import type { DraftSource } from '../speculation/draft-source.ts';
import { openGpu } from '../gpu/device.ts';
import type { Graph, Shape } from '../graph/graph.ts';
import { DeviceMemoryError } from './prepare-model.ts';
import { type Capacity, pageBytes, workspaceBytes } from '../memory/memory.ts';
import type { Platform } from '../platform.ts';
import { Runner } from '../execution/runner.ts';
import type { EngineOptions } from '../types.ts';
import { weightBytes } from './weights.ts';

const defaultSlots = 8;
/** Slot count for embedding models. Texts share a step; short texts alone would leave most of it empty. */
const defaultEmbeddingSlots = 32;

/** Everything needed to open the model again on a new device. */
export interface EngineSource {
  readonly platform: Platform;
  readonly options: EngineOptions;
  readonly file: ModelFile;
  readonly graph: Graph;
  /** An optional draft model, loaded on the same device. */
  readonly draft?: DraftSource | undefined;
}

/** Capacity of a draft model: that of the target model, limited by the draft model's own context. */
function draftCapacity(shape: Shape, capacity: Capacity): Capacity {
  const context = Math.min(capacity.context, shape.trainedContext);
  const pages = Math.min(capacity.pages, capacity.slots * Math.ceil(context / pageTokens));
  return { ...capacity, context, pages };
}

/** Bytes of weights, workspace and KV pages. */
const totalBytes = (
  { shape, weightBytes: weights }: { shape: Shape; weightBytes: number },
  capacity: Capacity,
): number => weights + workspaceBytes(shape, capacity) + capacity.pages * pageBytes(shape);

function sizesOf({ file, graph }: DraftSource): { shape: Shape; weightBytes: number; name: string } {
  const { shape } = graph;
  return { shape, weightBytes: weightBytes(file, graph), name: file.name };
}

/** Memory that a model may take, as far as it is known before the device is asked for it. */
function knownMemory(platform: Platform, options: EngineOptions, software: boolean): number | undefined {
  const { reservedBytes = 0, memoryBytes: limit } = options;
  // Only a CPU's memory size is known; a GPU reports an error when it is full.
  const total = software ? platform.memoryBytes() : undefined;
  const free = total === undefined ? undefined : Math.max(0, total - reservedBytes);
  return free === undefined || limit === undefined ? (free ?? limit) : Math.min(free, limit);
}

/**
 * Fraction of the memory the device granted that the engine uses; the driver and the loading process need the rest.
 */
const usableMemoryFraction = 31 / 32;

/**
 * Opens a device and loads the model onto it. When the device refuses an allocation, retries with the amount it
 * granted: a default context shrinks, an explicit one is refused with an error that says what would fit.
 * @param offeredBytes memory that the device granted in a previous attempt
 * @throws EngineError `no_adapter`, `model_too_large`
 */
export async function openRunner(
  source: EngineSource,
  fresh = false,
  offeredBytes?: number,
): Promise<Runner> {
  const { platform, options, graph, draft } = source;
  const file = withTensorViews(source.file, graph.views);
  const adapter = await platform.requestAdapter({
    fresh,
    ...(options.adapter === undefined ? {} : { adapter: options.adapter }),
    ...(options.dawnFeatures === undefined ? {} : { features: options.dawnFeatures }),
  });
  const gpu = await openGpu(adapter, platform.backend, options.dawnFeatures);
  const { context, kvCacheBytes, cacheShare, keepsContext } = options;
  const { limits } = gpu.device;
  const maxBindingBytes = Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
  let requestedBytes = 0;
  try {
    gpu.device.addEventListener('uncapturederror', (event) => {
      options.onNotice?.(`GPU error: ${event.error.message}`);
    });
    const { embedding } = graph.shape;
    const capacityRequest = {
      shape: graph.shape,
      weightBytes: weightBytes(file, graph),
      memoryBytes: offeredBytes ?? knownMemory(platform, options, gpu.caps.software),
      maxBindingBytes,
      software: gpu.caps.software,
      slots: options.parallel ?? (embedding ? defaultEmbeddingSlots : defaultSlots),
      name: file.name,
      matrices: matricesOf(file, graph),
      ...(context === undefined ? {} : { context }),
      ...(kvCacheBytes === undefined ? {} : { kvCacheBytes }),
      ...(cacheShare === undefined ? {} : { cacheShare }),
      ...(keepsContext === undefined ? {} : { keepsContext }),
      ...(draft ? { draft: sizesOf(draft) } : {}),
    };
    const capacity = embedding
      ? chooseEmbeddingCapacity(capacityRequest, embedding)
      : chooseCapacity(capacityRequest);
    requestedBytes = totalBytes(capacityRequest, capacity);
    const loadOptions = {
      gpu,
      wgsl: await platform.wgsl(),
      store: platform.store,
      exact: options.exact,
      retune: options.retune,
      verify: options.verify,
      onProgress: options.onProgress ?? (() => {}),
      onNotice: options.onNotice,
    };
    const runner = await Runner.load({ ...loadOptions, file, graph, capacity });
    if (draft && capacityRequest.draft) {
      const draftModelCapacity = draftCapacity(capacityRequest.draft.shape, capacity);
      requestedBytes += totalBytes(capacityRequest.draft, draftModelCapacity);
      runner.draftRunner = await Runner.load({ ...loadOptions, ...draft, capacity: draftModelCapacity });
    }
    if (offeredBytes !== undefined) {
      const { context: tokens, pages } = capacity;
      const summary = `${formatBytes(offeredBytes)} for the model, which allows a context of ${tokens} tokens`;
      options.onNotice?.(`the device has ${summary}, ${pages * pageTokens} tokens for all requests`);
    }
    return runner;
  } catch (error) {
    gpu.device.destroy();
    if (!(error instanceof DeviceMemoryError)) throw error;
    return await openRunner(
      source,
      fresh,
      Math.max(0, requestedBytes - error.missingBytes) * usableMemoryFraction,
    );
  }
}
