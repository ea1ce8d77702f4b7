/** Runs one kernel variant, with poisoned outputs: on the real adapter, or emulated where that cannot run it. */
import { expect } from 'vitest';
import type { Variant } from '../../kernels/assemble.ts';
import {
  type BindingType,
  emptyStepDims,
  type Grid,
  type Kernel,
  packParams,
  type StepDims,
} from '../../kernels/define.ts';
import { numberFromF16 } from '../../kernels/reference/half.ts';
import { type Gpu, openGpu } from '../../src/engine/gpu/device.ts';
import { type CompiledKernel, PipelineCache } from '../../src/engine/gpu/pipelines.ts';
import type { WgslSources } from '../../src/engine/platform.ts';
import { seededRandom } from '../../src/util/random.ts';
import { emulate } from './emulated-kernel.ts';
import { testPlatform } from './test-platform.ts';
import { runsRest } from './tier.ts';

export interface KernelHarness {
  readonly gpu: Gpu;
  /** Whether this adapter can run a variant; others are emulated. */
  supports(variant: Variant): boolean;
  /** Whether runs of a variant are emulated, alone or beside the adapter. */
  emulates(variant: Variant): boolean;
  run<V extends Variant, P extends Readonly<Record<string, number>>>(
    kernel: Kernel<V, P>,
    variant: V,
    input: {
      params: P;
      dims?: Partial<StepDims>;
      buffers: Readonly<Record<string, ArrayBufferView>>;
    },
    outputs: readonly string[],
  ): Promise<Record<string, ArrayBuffer>>;
}

/**
 * `LATHE_TEST_KERNELS`: `adapter`, where kernels are emulated that it cannot run (and some that it compiles slowly); `emulated` for all; `compared` for both, whose
 * results must be equal.
 */
const kernelModes = ['adapter', 'emulated', 'compared'] as const;
const kernelMode = process.env['LATHE_TEST_KERNELS'] ?? 'adapter';
if (!kernelModes.some((mode) => mode === kernelMode))
  throw new Error(`LATHE_TEST_KERNELS is '${kernelMode}'; it must be one of ${kernelModes.join(', ')}`);

/** A NaN with a payload: no kernel computes it by chance, and no comparison accepts it. */
export const poison = 0x7fc0dead;

export function poisoned(elements: number): Float32Array<ArrayBuffer> {
  return new Float32Array(new Uint32Array(elements).fill(poison).buffer);
}

/** A change of a shader that makes it wrong. */
export interface Fault {
  /** Path below `wgsl/`. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

function withFault(sources: WgslSources, { file, from, to }: Fault): WgslSources {
  const text = sources.get(file);
  if (text?.includes(from) !== true) throw new Error(`${file} does not contain '${from}'`);
  return new Map(sources).set(file, text.replace(from, to));
}

/**
 * @param fault makes the kernels that it runs wrong
 * @param options.emulates `all`, as with a fault; `slow`, also what the adapter compiles slowly, or `needed`, of that only kernels for GPUs
 */
export async function kernelHarness(
  fault?: Fault,
  { emulates: emulated = fault ? 'all' : 'slow' }: { emulates?: 'all' | 'slow' | 'needed' } = {},
): Promise<KernelHarness> {
  const platform = testPlatform();
  const gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
  const { device } = gpu;
  const sources = fault ? withFault(await platform.wgsl(), fault) : await platform.wgsl();
  const pipelines = new PipelineCache(device, sources);
  // A software adapter compiles kernels for GPUs for seconds, and runs them in tests only; a step of `npm run test:rest` compares both.
  // It also takes long for the many variants without subgroups; `npm test` runs a sample of them on it.
  const isEmulatedHere = ({ KEY_LANES, TILE_BLOCKS, SUBGROUPS }: Variant): boolean =>
    kernelMode === 'adapter' &&
    gpu.caps.software &&
    (KEY_LANES !== undefined ||
      TILE_BLOCKS !== undefined ||
      (emulated === 'slow' && runsRest && SUBGROUPS === false));
  const supports = (variant: Variant): boolean =>
    emulated !== 'all' &&
    kernelMode !== 'emulated' &&
    !isEmulatedHere(variant) &&
    (variant['SUBGROUPS'] !== true || gpu.caps.subgroupSize === (variant['LANES'] ?? variant['WG'])) &&
    (variant['F16'] !== true || gpu.caps.f16) &&
    (variant['MATRIX'] !== true || (gpu.caps.matrix === true && gpu.caps.subgroupSize === 32));
  /** @returns the outputs by name */
  async function runOnAdapter(
    { pipeline, layout }: CompiledKernel,
    bindings: readonly { name: string; type: BindingType; index: number; bytes: Uint8Array<ArrayBuffer> }[],
    grid: Grid,
    outputs: readonly string[],
  ): Promise<Record<string, ArrayBuffer>> {
    const made = new Map<string, GPUBuffer>();
    const entries = bindings.map(({ name, type, index, bytes }) => {
      const usage = type === 'uniform' ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE;
      const buffer = device.createBuffer({
        label: name,
        size: bytes.byteLength,
        usage: usage | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
      });
      device.queue.writeBuffer(buffer, 0, bytes);
      made.set(name, buffer);
      return { binding: index, resource: { buffer } };
    });
    device.pushErrorScope('validation');
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout, entries }));
    if (grid.every((size) => size > 0)) pass.dispatchWorkgroups(...grid);
    pass.end();
    const readbacks = outputs.map((name) => {
      const source = made.get(name);
      if (!source) throw new Error(`the kernel has no buffer ${name}`);
      const readback = device.createBuffer({
        size: source.size,
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      });
      encoder.copyBufferToBuffer(source, 0, readback, 0, source.size);
      return [name, readback] as const;
    });
    device.queue.submit([encoder.finish()]);
    const result: Record<string, ArrayBuffer> = {};
    for (const [name, readback] of readbacks) {
      await readback.mapAsync(GPUMapMode.READ);
      result[name] = readback.getMappedRange().slice(0);
      readback.destroy();
    }
    for (const buffer of made.values()) buffer.destroy();
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
    return result;
  }
  return {
    gpu,
    supports,
    emulates: (variant) => kernelMode === 'compared' || !supports(variant),
    async run(kernel, variant, input, outputs) {
      const dims: StepDims = {
        ...emptyStepDims,
        decodeRows: kernel.rows === 'decode' ? (input.dims?.tokens ?? 0) : 0,
        needsLogitAdjustment: true,
        needsLogprobs: true,
        ...input.dims,
      };
      const header = new Uint32Array([dims.tokens, dims.samples, dims.splitTiles, dims.decodeRows]);
      const all: Record<string, ArrayBufferView> = {
        ...input.buffers,
        params: new Uint8Array(packParams(kernel, input.params)),
        step: header,
      };
      const bindings = kernel.bindings(variant).flatMap((binding, index) => {
        if (!binding) return [];
        const [name, type] = binding;
        const data = all[name];
        if (!data) throw new Error(`${kernel.op}: nothing given for ${name}`);
        const bytes = new Uint8Array(Math.max(16, Math.ceil(data.byteLength / 16) * 16));
        bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
        return [{ name, type, index, bytes }];
      });
      const grid = kernel.grid(variant, input.params, dims);
      if (!supports(variant)) {
        const buffers = Object.fromEntries(bindings.map(({ name, bytes }) => [name, bytes]));
        emulate(sources, kernel, variant, grid, buffers);
        return Object.fromEntries(
          outputs.map((name) => [name, (buffers[name] as Uint8Array<ArrayBuffer>).buffer]),
        );
      }
      const result = await runOnAdapter(await pipelines.get(kernel, variant), bindings, grid, outputs);
      if (kernelMode === 'compared') {
        const buffers = Object.fromEntries(bindings.map(({ name, bytes }) => [name, bytes]));
        emulate(sources, kernel, variant, grid, buffers);
        for (const name of outputs)
          expectSameNumbers(result[name] as ArrayBuffer, buffers[name] as Uint8Array, name);
      }
      return result;
    },
  };
}

/** A small reproducible generator (mulberry32); uniform in [0, 1). */
export const random = seededRandom;

/** Values of about unit size, in [-1.7, 1.7]. */
export function randomValues(count: number, next: () => number, scale = 1): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, () => (next() * 2 - 1) * 1.7 * scale);
}

/** Normalized mean squared error, as in llama.cpp's test-backend-ops. */
/** @param minPower used if the sum of squares of `expected` is smaller */
export function nmse(got: ArrayLike<number>, expected: ArrayLike<number>, minPower = 0): number {
  let error = 0;
  let power = 0;
  for (let i = 0; i < expected.length; i++) {
    const e = expected[i] as number;
    error += ((got[i] as number) - e) ** 2;
    power += e ** 2;
  }
  power = Math.max(power, minPower);
  return power === 0 ? error : error / power;
}

/**
 * Checks the mean error and the largest error; a poisoned or missing value fails both.
 * @param tolerance `minPower` is for a few values that may be small because their terms cancel: the sum of squares of the
 *   terms
 */
export function expectClose(
  got: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance: { nmse: number; maxAbs: number; minPower?: number },
  what: string,
): void {
  let worst = 0;
  let at = -1;
  for (let i = 0; i < expected.length; i++) {
    const off = Math.abs((got[i] as number) - (expected[i] as number));
    if (!(off <= worst)) {
      worst = off;
      at = i;
      if (Number.isNaN(off)) break;
    }
  }
  expect(worst, `${what}: worst at ${at}: expected ${expected[at]}, got ${got[at]}`).toBeLessThanOrEqual(
    tolerance.maxAbs,
  );
  expect(nmse(got, expected, tolerance.minPower), `${what}: NMSE`).toBeLessThanOrEqual(tolerance.nmse);
}

export const variantName = (variant: Variant): string =>
  Object.entries(variant)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

/** Checks words that are integers, f32 or pairs of f16: equal, or numbers of a kind that differ by rounding. */
function expectSameNumbers(got: ArrayBuffer, emulated: Uint8Array, what: string): void {
  const words = new Uint32Array(got);
  const others = new Uint32Array(emulated.buffer, emulated.byteOffset, words.length);
  const [floats, otherFloats] = [
    new Float32Array(got),
    new Float32Array(others.buffer, others.byteOffset, words.length),
  ];
  const isNear = (a: number, b: number, rounding: number) => Math.abs(a - b) <= rounding * (1 + Math.abs(b));
  const halves = (word: number) => [numberFromF16(word & 0xffff), numberFromF16(word >>> 16)] as const;
  const wrong = [...words.keys()].filter((i) => {
    const [word, other] = [words[i] as number, others[i] as number];
    if (word === other || isNear(floats[i] as number, otherFloats[i] as number, 1e-3)) return false;
    if (Number.isNaN(floats[i]) && Number.isNaN(otherFloats[i])) return false;
    const [[a, b], [c, d]] = [halves(word), halves(other)];
    return !(isNear(a, c, 2e-3) && isNear(b, d, 2e-3));
  });
  const named = wrong.slice(0, 8).map((i) => ({ word: i, adapter: floats[i], emulated: otherFloats[i] }));
  expect(named, `${what}: ${wrong.length} of ${words.length} words differ`).toEqual([]);
}

/** Checks that every 32-bit word not in `written` is unchanged after the run. */
export function expectUntouched(
  got: ArrayBuffer,
  before: ArrayBufferView,
  written: (word: number) => boolean,
  what: string,
): void {
  const old = new Uint32Array(before.buffer, before.byteOffset, before.byteLength >> 2);
  const now = new Uint32Array(got);
  const touched: number[] = [];
  old.forEach((word, index) => {
    if (!written(index) && now[index] !== word) touched.push(index);
  });
  expect(touched.slice(0, 8), `${what}: words written outside of the result`).toEqual([]);
}

/** Numbers below `count` in random order. */
export function permutation(count: number, next: () => number): Uint32Array<ArrayBuffer> {
  const order = Uint32Array.from({ length: count }, (_, index) => index);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [order[i], order[j]] = [order[j] as number, order[i] as number];
  }
  return order;
}
