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
/** Texts that share a step; short ones would leave most of it empty. */
const defaultTexts = 32;

/** Everything one device needs to be opened again. */
export interface Source {
  readonly platform: Platform;
  readonly options: EngineOptions;
  readonly file: ModelFile;
  readonly graph: Graph;
  /** A smaller model, which is loaded beside it. */
  readonly draft?: DraftSource | undefined;
}

/** What a draft model is to hold: what it drafts for, as far as its own context goes. */
function draftCapacity(shape: Shape, capacity: Capacity): Capacity {
  const context = Math.min(capacity.context, shape.trainedContext);
  const pages = Math.min(capacity.pages, capacity.slots * Math.ceil(context / pageTokens));
  return { ...capacity, context, pages };
}

/** Of weights, work and pages. */
const memoryOf = (
  { shape, weightBytes: weights }: { shape: Shape; weightBytes: number },
  capacity: Capacity,
): number => weights + workBytes(shape, capacity) + capacity.pages * pageBytes(shape);

function sizesOf({ file, graph }: DraftSource): { shape: Shape; weightBytes: number; name: string } {
  const { shape } = graph;
  return { shape, weightBytes: weightBytes(file, graph), name: file.name };
}

/** Of what a device gave: the rest is for what a driver and the loading take beside buffers of the engine. */
const usable = 31 / 32;

/**
 * Opens a device and puts the model on it. Where the device refuses, it is tried with what it gave: a context that
 * nobody named shrinks, any other is refused with what would fit.
 * @param offered memory that the device gave at an attempt before
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
      // Only a CPU's memory is known; a GPU refuses by itself when it is full.
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
      const room = `${formatBytes(offered)} for the model: a context of ${tokens} tokens`;
      options.onNotice?.(`the device has ${room}, ${pages * pageTokens} tokens over all requests`);
    }
    return runner;
  } catch (error) {
    gpu.device.destroy();
    if (!(error instanceof MemoryRefused)) throw error;
    return await bringUp(source, fresh, Math.max(0, asked - error.missing) * usable);
  }
}
