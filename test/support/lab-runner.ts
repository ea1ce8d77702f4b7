/** Runs a kernel or a built-in kernel on a parity case, and only compares it with the oracle. */
import { packUniform, type Contract } from '../../kernels/contracts.ts';
import { packParams } from '../../kernels/define.ts';
import { type Gpu, openGpu } from '../../src/engine/gpu/device.ts';
import { PipelineCache } from '../../src/engine/gpu/pipelines.ts';
import { compileExpression } from '../../src/lab/expression.ts';
import type { BuiltinStep } from '../../src/lab/ops/index.ts';
import type { Stub } from '../../src/lab/stubs.ts';
import type { ExpectedOutput, ParityCase, Tolerance } from '../../src/lab/types.ts';
import { testPlatform } from './test-platform.ts';
import { poison } from './kernel-harness.ts';

type Expected = Readonly<Record<string, ExpectedOutput>>;
type Words = Record<string, Uint32Array<ArrayBuffer>>;

export interface LabRunner {
  readonly gpu: Gpu;
  stub(contract: Contract, stub: Stub): Promise<(one: ParityCase, expected: Expected) => Promise<Words>>;
  builtin(
    contract: Contract,
    steps: readonly BuiltinStep[],
    one: ParityCase,
    expected: Expected,
  ): Promise<Words>;
}

/** Initial contents of the storage bindings: NaN for bindings of role `out`. */
function contentsOf(contract: Contract, one: ParityCase, expected: Expected): Words {
  return Object.fromEntries(
    contract.bindings.flatMap(({ name, role, dtype }) => {
      if (role === 'uniform') return [];
      if (role === 'out') {
        const elements = expected[name]?.values.length ?? 0;
        return [[name, new Uint32Array(dtype === 'f16' ? elements / 2 : elements).fill(poison)]];
      }
      const data = one.tensors[name];
      if (!data) throw new Error(`${one.name}: nothing given for ${name}`);
      return [[name, new Uint32Array(data.buffer, data.byteOffset, data.length)]];
    }),
  );
}

export async function labRunner(): Promise<LabRunner> {
  const platform = testPlatform();
  const gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
  const { device } = gpu;
  const builtins = new PipelineCache(device, await platform.wgsl());

  const upload = (label: string, data: ArrayBufferView | ArrayBuffer, usage: number): GPUBuffer => {
    const bytes = ArrayBuffer.isView(data)
      ? new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength)
      : new Uint8Array(data);
    const buffer = device.createBuffer({
      label,
      size: Math.max(16, bytes.byteLength),
      usage: usage | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
    });
    device.queue.writeBuffer(buffer, 0, bytes);
    return buffer;
  };
  const uploadAll = (contents: Words): Map<string, GPUBuffer> =>
    new Map(
      Object.entries(contents).map(([name, words]) => [name, upload(name, words, GPUBufferUsage.STORAGE)]),
    );

  /** Submits what `encode` records and reads the writable bindings; frees all buffers. */
  async function finish(
    contract: Contract,
    buffers: Map<string, GPUBuffer>,
    encode: (pass: GPUComputePassEncoder) => void,
  ): Promise<Words> {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    encode(pass);
    pass.end();
    const writable = contract.bindings.filter(({ role }) => role === 'out' || role === 'inout');
    const readbacks = writable.map(({ name }) => {
      const source = buffers.get(name) as GPUBuffer;
      const readback = device.createBuffer({
        size: source.size,
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      });
      encoder.copyBufferToBuffer(source, 0, readback, 0, source.size);
      return { name, readback };
    });
    device.queue.submit([encoder.finish()]);
    const words: Words = {};
    for (const { name, readback } of readbacks) {
      await readback.mapAsync(GPUMapMode.READ);
      words[name] = new Uint32Array(readback.getMappedRange().slice(0));
      readback.destroy();
    }
    for (const buffer of buffers.values()) buffer.destroy();
    return words;
  }

  return {
    gpu,
    async stub(contract, { source, dispatch, overrides }) {
      device.pushErrorScope('validation');
      const module = device.createShaderModule({ label: contract.op, code: source });
      const layout = device.createBindGroupLayout({
        entries: contract.bindings.map(({ role }, binding) => ({
          binding,
          visibility: GPUShaderStage.COMPUTE,
          buffer: { type: role === 'uniform' ? 'uniform' : role === 'in' ? 'read-only-storage' : 'storage' },
        })),
      });
      const pipeline = await device.createComputePipelineAsync({
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint: 'main', constants: overrides },
      });
      const error = await device.popErrorScope();
      if (error) throw new Error(error.message);
      const [x, y, z] = [dispatch.x, dispatch.y ?? '1', dispatch.z ?? '1'].map((text) =>
        compileExpression(text),
      );
      return async (one, expected) => {
        const buffers = uploadAll(contentsOf(contract, one, expected));
        const values = { ...one.dims, ...overrides };
        const entries = contract.bindings.map((binding, index) => {
          if (binding.role === 'uniform') {
            const uniform = packUniform(binding, { ...one.params, tokens: one.dims['tokens'] as number });
            buffers.set(binding.name, upload(binding.name, uniform, GPUBufferUsage.UNIFORM));
          }
          return { binding: index, resource: { buffer: buffers.get(binding.name) as GPUBuffer } };
        });
        device.pushErrorScope('validation');
        const words = await finish(contract, buffers, (pass) => {
          pass.setPipeline(pipeline);
          pass.setBindGroup(0, device.createBindGroup({ layout, entries }));
          pass.dispatchWorkgroups(
            ...([x, y, z].map((count) => count?.evaluate(values) ?? 1) as [number, number, number]),
          );
        });
        const failure = await device.popErrorScope();
        if (failure) throw new Error(`${one.name}: ${failure.message}`);
        return words;
      };
    },
    async builtin(contract, steps, one, expected) {
      const buffers = uploadAll(contentsOf(contract, one, expected));
      const dispatches = await Promise.all(
        steps.map(async (step, number) => {
          const { kernel, variant, dims } = step;
          const { pipeline, layout } = await builtins.get(kernel, variant);
          const entries = kernel.bindings(variant).flatMap((binding, index) => {
            if (!binding) return [];
            const [name] = binding;
            const given = step.bindings[name];
            const key =
              given === undefined || 'data' in given
                ? `${number}.${name}`
                : 'tensor' in given
                  ? given.tensor
                  : `scratch ${given.scratch}`;
            if (!buffers.has(key)) {
              const storage = GPUBufferUsage.STORAGE;
              const header = new Uint32Array([dims.tokens, dims.samples, dims.splitTiles, dims.decodeRows]);
              if (name === 'params')
                buffers.set(
                  key,
                  upload(key, packParams(kernel, step.params as never), GPUBufferUsage.UNIFORM),
                );
              else if (name === 'step') buffers.set(key, upload(key, header, GPUBufferUsage.UNIFORM));
              else if (given && 'data' in given) buffers.set(key, upload(key, given.data, storage));
              else if (given && 'scratch' in given)
                buffers.set(key, upload(key, new Uint8Array(given.bytes), storage));
              else throw new Error(`${one.name}: nothing bound to ${name} of ${kernel.source}`);
            }
            return [{ binding: index, resource: { buffer: buffers.get(key) as GPUBuffer } }];
          });
          return {
            pipeline,
            group: device.createBindGroup({ layout, entries }),
            grid: kernel.grid(variant, step.params as never, dims),
          };
        }),
      );
      return finish(contract, buffers, (pass) => {
        for (const { pipeline, group, grid } of dispatches) {
          pass.setPipeline(pipeline);
          pass.setBindGroup(0, group);
          pass.dispatchWorkgroups(...grid);
        }
      });
    },
  };
}

/** Errors in the outputs of a case, compared with the oracle. */
export function faultsOf(
  contract: Contract,
  one: ParityCase,
  expected: Expected,
  got: Words,
  tolerance: Tolerance,
): string[] {
  return contract.bindings.flatMap(({ name, role, dtype }) => {
    const output = expected[name];
    const words = got[name];
    if (!output || !words) return role === 'out' || role === 'inout' ? [`${one.name}: no ${name}`] : [];
    const isHalf = dtype === 'f16';
    const values = isHalf
      ? new Float16Array(words.buffer)
      : dtype === 'u32'
        ? words
        : new Float32Array(words.buffer);
    const bits = isHalf ? new Uint16Array(words.buffer) : words;
    const given = one.tensors[name];
    const before = given
      ? isHalf
        ? new Uint16Array(given.buffer, given.byteOffset)
        : new Uint32Array(given.buffer, given.byteOffset, given.length)
      : new Uint32Array(output.values.length).fill(poison);
    let [error, power, worst, greatest, near, compared, firstWrong] = [0, 0, 0, 0, 0, 0, -1];
    for (const [i, e] of output.values.entries()) {
      if (output.unspecified?.[i]) continue;
      if (output.preserved?.[i]) {
        if (bits[i] !== before[i] && firstWrong < 0) firstWrong = i;
        continue;
      }
      const off = Math.abs((values[i] as number) - e);
      error += off * off;
      power += e * e;
      worst = off <= worst ? worst : off;
      greatest = Math.max(greatest, Math.abs(e));
      near += off <= 4 * Math.sqrt(tolerance.nmse) * Math.abs(e) + tolerance.max_abs * Math.abs(e) ? 1 : 0;
      compared += 1;
    }
    const nmse = power === 0 ? error : error / power;
    const faults: string[] = [];
    if (firstWrong >= 0) faults.push(`element ${firstWrong} must keep its contents`);
    if (!(nmse <= tolerance.nmse)) faults.push(`NMSE ${nmse}`);
    if (!(worst <= tolerance.max_abs * greatest)) faults.push(`greatest error ${worst} of ${greatest}`);
    if (dtype === 'u32' && near !== compared) faults.push(`${compared - near} of ${compared} differ`);
    return faults.map((fault) => `${one.name}: ${name}: ${fault}`);
  });
}
