/** Runs the built-in kernels of the engine on a parity case. */
import type { Contract } from '../../../kernels/contracts.ts';
import { packParams } from '../../../kernels/define.ts';
import type { PipelineCache } from '../../engine/gpu/pipelines.ts';
import type { BuiltinBinding, BuiltinStep } from '../ops/index.ts';
import type { ParityCase } from '../types.ts';

export interface PreparedBuiltin {
  readonly encode: (pass: GPUComputePassEncoder) => void;
  /** Runs it once. Resolves with the 32-bit words of the writable bindings, by name. */
  run(): Promise<Record<string, Uint32Array<ArrayBuffer>>>;
  destroy(): void;
}

export interface BuiltinCase {
  readonly contract: Contract;
  readonly parityCase: ParityCase;
  readonly steps: readonly BuiltinStep[];
  /** Sizes of the bindings of role `out`, in 32-bit words, by name. */
  readonly outWords: Readonly<Record<string, number>>;
}

/** Compiles and binds the steps of a built-in. */
export async function prepareBuiltin(
  pipelines: PipelineCache,
  device: GPUDevice,
  { contract, parityCase, steps, outWords }: BuiltinCase,
): Promise<PreparedBuiltin> {
  const compiled = await Promise.all(steps.map(({ kernel, variant }) => pipelines.get(kernel, variant)));
  const storageUsage = GPUBufferUsage.STORAGE;
  const owned: GPUBuffer[] = [];
  const buffersByName = new Map<string, GPUBuffer>();
  const create = (label: string, size: number, usage: number, contents?: Bytes): GPUBuffer => {
    const buffer = device.createBuffer({
      label,
      size: Math.max(16, Math.ceil(size / 16) * 16),
      usage: usage | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
    });
    if (contents && contents.byteLength > 0) device.queue.writeBuffer(buffer, 0, contents);
    owned.push(buffer);
    return buffer;
  };
  const getOrCreate = (name: string, make: () => GPUBuffer): GPUBuffer => {
    const buffer = buffersByName.get(name) ?? make();
    buffersByName.set(name, buffer);
    return buffer;
  };
  const tensor = (name: string): GPUBuffer =>
    getOrCreate(`tensor ${name}`, () => {
      const data = parityCase.tensors[name];
      if (data) return create(name, data.byteLength, storageUsage, data);
      return create(name, 4 * (outWords[name] ?? 0), storageUsage);
    });
  const bufferOf = (binding: BuiltinBinding): GPUBuffer => {
    if ('tensor' in binding) return tensor(binding.tensor);
    if ('data' in binding) return create('data', binding.data.byteLength, storageUsage, binding.data);
    return getOrCreate(`scratch ${binding.scratch}`, () =>
      create(binding.scratch, binding.bytes, storageUsage),
    );
  };

  const dispatches = steps.map((step, index) => {
    const { kernel, variant, dims } = step;
    const { pipeline, layout } = compiled[index] as NonNullable<(typeof compiled)[number]>;
    const header = new Uint32Array([dims.tokens, dims.samples, dims.splitTiles, dims.decodeRows]);
    const entries = kernel.bindings(variant).flatMap((binding, number) => {
      if (!binding) return [];
      const [name] = binding;
      if (name === 'params') {
        const bytes = packParams(kernel, step.params as never);
        const buffer = create(name, bytes.byteLength, GPUBufferUsage.UNIFORM, bytes);
        return [{ binding: number, resource: { buffer } }];
      }
      if (name === 'step') {
        const buffer = create(name, header.byteLength, GPUBufferUsage.UNIFORM, header);
        return [{ binding: number, resource: { buffer } }];
      }
      const builtinBinding = step.bindings[name];
      if (!builtinBinding)
        throw new Error(`${contract.op}: no buffer for the binding ${name} of ${kernel.source}`);
      return [{ binding: number, resource: { buffer: bufferOf(builtinBinding) } }];
    });
    return {
      pipeline,
      group: device.createBindGroup({ layout, entries }),
      grid: kernel.grid(variant, step.params as never, dims),
    };
  });
  const encode = (pass: GPUComputePassEncoder): void => {
    for (const { pipeline, group, grid } of dispatches) {
      if (grid.some((size) => size === 0)) continue;
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...grid);
    }
  };
  return {
    encode,
    async run() {
      const writable = contract.bindings.filter(({ role }) => role === 'out' || role === 'inout');
      const sources = writable.map(({ name }) => ({ name, buffer: tensor(name) }));
      const readback = device.createBuffer({
        label: 'builtin.readback',
        size: sources.reduce((sum, { buffer }) => sum + buffer.size, 0),
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      });
      owned.push(readback);
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      encode(pass);
      pass.end();
      let at = 0;
      for (const { buffer } of sources) {
        encoder.copyBufferToBuffer(buffer, 0, readback, at, buffer.size);
        at += buffer.size;
      }
      device.queue.submit([encoder.finish()]);
      await readback.mapAsync(GPUMapMode.READ);
      const copied = readback.getMappedRange().slice(0);
      at = 0;
      const words: Record<string, Uint32Array<ArrayBuffer>> = {};
      for (const { name, buffer } of sources) {
        words[name] = new Uint32Array(copied, at, buffer.size / 4);
        at += buffer.size;
      }
      return words;
    },
    destroy() {
      for (const buffer of owned) buffer.destroy();
    },
  };
}

type Bytes = ArrayBuffer | Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer>;
