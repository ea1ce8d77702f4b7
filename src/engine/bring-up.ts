import { chooseCapacity } from './capacity.ts';
import { matricesOf } from './capacity-advice.ts';
import { chooseEmbeddingCapacity } from './embedding-capacity.ts';
import type { ModelFile } from './formats/model-file.ts';
import { openGpu } from './gpu/device.ts';
import type { Graph } from './graph.ts';
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
}

/** Opens a device and puts the model on it. */
export async function bringUp(source: Source, fresh = false): Promise<Runner> {
  const { platform, options, file, graph } = source;
  const adapter = await platform.requestAdapter({
    fresh,
    ...(options.adapter === undefined ? {} : { adapter: options.adapter }),
  });
  const gpu = await openGpu(adapter, platform.backend);
  const { context, kvCacheBytes } = options;
  const { limits } = gpu.device;
  const maxBindingBytes = Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
  try {
    gpu.device.addEventListener('uncapturederror', (event) => {
      options.onNotice?.(`GPU error: ${event.error.message}`);
    });
    const { embedding } = graph.shape;
    const wanted = {
      shape: graph.shape,
      weightBytes: weightBytes(file, graph),
      // Only a CPU's memory is known; a GPU refuses by itself when it is full.
      memoryBytes: gpu.caps.software ? platform.memoryBytes() : undefined,
      maxBindingBytes,
      software: gpu.caps.software,
      slots: options.parallel ?? (embedding ? defaultTexts : defaultSlots),
      name: file.name,
      matrices: matricesOf(file, graph),
      ...(context === undefined ? {} : { context }),
      ...(kvCacheBytes === undefined ? {} : { kvCacheBytes }),
    };
    const capacity = embedding ? chooseEmbeddingCapacity(wanted, embedding) : chooseCapacity(wanted);
    return await Runner.load({
      gpu,
      file,
      graph,
      capacity,
      wgsl: await platform.wgsl(),
      store: platform.store,
      exact: options.exact,
      retune: options.retune,
      onProgress: options.onProgress ?? (() => {}),
      onNotice: options.onNotice,
    });
  } catch (error) {
    gpu.device.destroy();
    throw error;
  }
}
