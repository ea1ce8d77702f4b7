import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { chooseCapacity } from './capacity.ts';
import { matricesOf } from './capacity-advice.ts';
import { chooseEmbeddingCapacity } from './embedding-capacity.ts';
import { formatBytes } from './format-bytes.ts';
import type { ModelFile } from './formats/model-file.ts';
import { viewed } from './formats/viewed.ts';
import type { DraftSource } from './draft-source.ts';
import { openGpu } from './gpu/device.ts';
import type { Graph, Shape } from './graph.ts';
import { MemoryRefused } from './loading.ts';
import { type Capacity, pageBytes, workBytes } from './memory.ts';
import type { Platform } from './platform.ts';
import { Runner } from './runner.ts';
import type { EngineOptions } from './types.ts';
import { weightBytes } from './weights.ts';

const defaultSlots = 8;
/** Slot count for embedding models. Texts share a step; short texts alone would leave most of it empty. */
const defaultTexts = 32;

/** Everything needed to open the model again on a new device. */
export interface Source {
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
const memoryOf = (
  { shape, weightBytes: weights }: { shape: Shape; weightBytes: number },
  capacity: Capacity,
): number => weights + workBytes(shape, capacity) + capacity.pages * pageBytes(shape);

function sizesOf({ file, graph }: DraftSource): { shape: Shape; weightBytes: number; name: string } {
  const { shape } = graph;
  return { shape, weightBytes: weightBytes(file, graph), name: file.name };
}

/**
 * Fraction of the memory the device granted that the engine uses; the driver and the loading process need the rest.
 */
const usable = 31 / 32;

/**
 * Opens a device and loads the model onto it. When the device refuses an allocation, retries with the amount it
 * granted: a default context shrinks, an explicit one is refused with an error that says what would fit.
 * @param offeredBytes memory that the device granted in a previous attempt
 * @throws EngineError `no_adapter`, `model_too_large`
 */
export async function bringUp(source: Source, fresh = false, offered?: number): Promise<Runner> {
  const { platform, options, graph, draft } = source;
  const file = viewed(source.file, graph.views);
  const adapter = await platform.requestAdapter({
    fresh,
    ...(options.adapter === undefined ? {} : { adapter: options.adapter }),
  });
  const gpu = await openGpu(adapter, platform.backend);
  const { context, kvCacheBytes } = options;
  const { limits } = gpu.device;
  const maxBindingBytes = Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
  let asked = 0;
  try {
    gpu.device.addEventListener('uncapturederror', (event) => {
      options.onNotice?.(`GPU error: ${event.error.message}`);
    });
    const { embedding } = graph.shape;
    const wanted = {
      shape: graph.shape,
      weightBytes: weightBytes(file, graph),
      // Only a CPU's memory size is known; a GPU reports an error when it is full.
      memoryBytes: offered ?? (gpu.caps.software ? platform.memoryBytes() : undefined),
      maxBindingBytes,
      software: gpu.caps.software,
      slots: options.parallel ?? (embedding ? defaultTexts : defaultSlots),
      name: file.name,
      matrices: matricesOf(file, graph),
      ...(context === undefined ? {} : { context }),
      ...(kvCacheBytes === undefined ? {} : { kvCacheBytes }),
      ...(draft ? { draft: sizesOf(draft) } : {}),
    };
    const capacity = embedding ? chooseEmbeddingCapacity(wanted, embedding) : chooseCapacity(wanted);
    asked = memoryOf(wanted, capacity);
    const common = {
      gpu,
      wgsl: await platform.wgsl(),
      store: platform.store,
      exact: options.exact,
      retune: options.retune,
      onProgress: options.onProgress ?? (() => {}),
      onNotice: options.onNotice,
    };
    const runner = await Runner.load({ ...common, file, graph, capacity });
    if (draft && wanted.draft) {
      const own = draftCapacity(wanted.draft.shape, capacity);
      asked += memoryOf(wanted.draft, own);
      runner.draft = await Runner.load({ ...common, ...draft, capacity: own });
    }
    if (offered !== undefined) {
      const { context: tokens, pages } = capacity;
      const room = `${formatBytes(offered)} for the model, which allows a context of ${tokens} tokens`;
      options.onNotice?.(`the device has ${room}, ${pages * pageTokens} tokens for all requests`);
    }
    return runner;
  } catch (error) {
    gpu.device.destroy();
    if (!(error instanceof MemoryRefused)) throw error;
    return await bringUp(source, fresh, Math.max(0, asked - error.missing) * usable);
  }
}
