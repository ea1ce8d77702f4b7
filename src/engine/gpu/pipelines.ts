import { assemble, variantKey, type Variant } from '../../../kernels/assemble.ts';
import type { Kernel } from '../../../kernels/define.ts';
import type { WgslSources } from '../platform.ts';

export interface Compiled {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
}

/** Compiles each variant once; callers at the same time share the compile, a failure is forgotten. */
export class PipelineCache {
  readonly #device: GPUDevice;
  readonly #sources: WgslSources;
  readonly #compiled = new Map<string, Promise<Compiled>>();

  constructor(device: GPUDevice, sources: WgslSources) {
    this.#device = device;
    this.#sources = sources;
  }

  get size(): number {
    return this.#compiled.size;
  }

  get<V extends Variant, P extends Readonly<Record<string, number>>>(
    kernel: Kernel<V, P>,
    variant: V,
  ): Promise<Compiled> {
    const key = variantKey(kernel.source, variant);
    let compiled = this.#compiled.get(key);
    if (!compiled) {
      compiled = this.#compile(kernel, variant, key);
      compiled.catch(() => this.#compiled.delete(key));
      this.#compiled.set(key, compiled);
    }
    return compiled;
  }

  async #compile<V extends Variant, P extends Readonly<Record<string, number>>>(
    kernel: Kernel<V, P>,
    variant: V,
    label: string,
  ): Promise<Compiled> {
    const device = this.#device;
    const code = assemble(this.#sources, kernel.source, variant);
    // Without a scope a WGSL error would also arrive as an uncaptured one.
    device.pushErrorScope('validation');
    const module = device.createShaderModule({ label, code });
    const scope = device.popErrorScope();
    const { messages } = await module.getCompilationInfo();
    await scope;
    const errors = messages.filter((message) => message.type === 'error');
    if (errors.length > 0) {
      const list = errors.map((error) => `${error.lineNum}:${error.linePos} ${error.message}`).join('\n');
      throw new Error(`${label} does not compile:\n${list}`);
    }
    const layout = device.createBindGroupLayout({ label, entries: layoutEntries(kernel, variant) });
    const pipeline = await device.createComputePipelineAsync({
      label,
      layout: device.createPipelineLayout({ label, bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: 'main' },
    });
    return { pipeline, layout };
  }
}

const bufferTypes = { read: 'read-only-storage', read_write: 'storage', uniform: 'uniform' } as const;

export function layoutEntries<V extends Variant, P extends Readonly<Record<string, number>>>(
  kernel: Kernel<V, P>,
  variant: V,
): GPUBindGroupLayoutEntry[] {
  return kernel
    .bindings(variant)
    .flatMap((binding, index) =>
      binding
        ? [{ binding: index, visibility: GPUShaderStage.COMPUTE, buffer: { type: bufferTypes[binding[1]] } }]
        : [],
    );
}
