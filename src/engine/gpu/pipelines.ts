import { assemble, variantKey, type Variant } from '../../../kernels/assemble.ts';
import type { Contract } from '../../../kernels/contracts.ts';
import type { Kernel } from '../../../kernels/define.ts';
import type { WgslSources } from '../platform.ts';

export interface CompiledKernel {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
}

/** Compiles each variant once. Concurrent callers share the compilation; a failed one is not cached. */
export class PipelineCache {
  readonly #device: GPUDevice;
  readonly #sources: WgslSources;
  readonly #compiled = new Map<string, Promise<CompiledKernel>>();

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
  ): Promise<CompiledKernel> {
    const key = variantKey(kernel.source, variant);
    return this.#compileOnce(key, () =>
      this.#compile(assemble(this.#sources, kernel.source, variant), key, layoutEntries(kernel, variant)),
    );
  }

  /** Compiles a lab kernel, cached by its digest. */
  getLab(kernel: LabSource): Promise<CompiledKernel> {
    const entries = contractLayout(kernel.contract);
    return this.#compileOnce(`lab:${kernel.digest}`, () =>
      this.#compile(kernel.code, `lab:${kernel.name}`, entries, kernel),
    );
  }

  #compileOnce(key: string, compile: () => Promise<CompiledKernel>): Promise<CompiledKernel> {
    let compiled = this.#compiled.get(key);
    if (!compiled) {
      compiled = compile();
      compiled.catch(() => this.#compiled.delete(key));
      this.#compiled.set(key, compiled);
    }
    return compiled;
  }

  async #compile(
    code: string,
    label: string,
    entries: GPUBindGroupLayoutEntry[],
    entry: { entryPoint: string; constants: Readonly<Record<string, number>> } = defaultEntry,
  ): Promise<CompiledKernel> {
    const device = this.#device;
    // Without an error scope, a WGSL error would also be reported as an uncaptured error.
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
    const layout = device.createBindGroupLayout({ label, entries });
    const pipeline = await device.createComputePipelineAsync({
      label,
      layout: device.createPipelineLayout({ label, bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: entry.entryPoint, constants: entry.constants },
    });
    return { pipeline, layout };
  }
}

const defaultEntry = { entryPoint: 'main', constants: {} };

/** The parts of a lab kernel needed to compile it. */
interface LabSource {
  readonly name: string;
  readonly digest: string;
  readonly contract: Contract;
  readonly code: string;
  readonly entryPoint: string;
  readonly constants: Readonly<Record<string, number>>;
}

/** The bind group layout of a contract, even if a kernel does not use all of it. */
export function contractLayout({ bindings }: Contract): GPUBindGroupLayoutEntry[] {
  const types = { in: 'read-only-storage', out: 'storage', inout: 'storage', uniform: 'uniform' } as const;
  return bindings.map(({ role }, binding) => ({
    binding,
    visibility: GPUShaderStage.COMPUTE,
    buffer: { type: types[role] },
  }));
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
