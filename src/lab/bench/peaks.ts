/** Measures the peak rates of the adapter, with kernels whose results are verified, so that no driver can skip work. */
import type { Gpu } from '../../engine/gpu/device.ts';
import { PassTimer } from '../../engine/gpu/pass-timer.ts';
import { measureCopyBandwidth } from './copy-bandwidth.ts';
import type { AdapterPeaks } from './roofline.ts';

/** The fastest round counts. */
const rounds = 3;

/**
 * Takes one to two seconds. The GPU must be idle.
 * @param pause lets requests run between the parts
 * @throws Error when the adapter computes wrong results
 */
export async function measurePeaks(
  gpu: Gpu,
  pause: () => Promise<unknown> = async () => undefined,
): Promise<AdapterPeaks> {
  const timer = new PassTimer(gpu);
  try {
    const gflops = await measureArithmetic(gpu, timer, pause);
    await pause();
    const cached = await measureCachedReads(gpu, timer);
    await pause();
    const dispatchMs = await measureEmptyDispatch(gpu, timer);
    await pause();
    const { software } = gpu.caps;
    const { bytesPerSecond } = await measureCopyBandwidth(gpu.device, { software, rounds: 2, pause });
    const gbps = bytesPerSecond / 1e9;
    return { gbps, cachedGbps: Math.max(gbps, cached), gflops, dispatchMs };
  } finally {
    timer.destroy();
  }
}

/** Values of `params` in the kernels below, and the number of dispatches. */
interface PeakRun {
  readonly steps: number;
  readonly factor?: number;
  readonly term?: number;
  /** Number of dispatches. */
  readonly repeats?: number;
}

const headerSource = /* wgsl */ `
struct Params { steps: u32, factor: f32, term: f32 }
@group(0) @binding(0) var<uniform> params: Params;
`;
const workgroupSize = 64;

/**
 * Kernel that repeats x = x * factor + term in `chains` independent vectors per thread. With factor and term 1, the sum
 * counts the steps, exactly below 2^24. The compiler knows neither value, and cannot merge the chains because they
 * start at different values.
 */
const multiplyAddSource = (chains: number): string => {
  const all = Array.from({ length: chains }, (_, chain) => chain);
  const step = all.map((chain) => `x${chain} = fma(x${chain}, factor, term);`).join(' ');
  return /* wgsl */ `${headerSource}
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@compute @workgroup_size(${workgroupSize})
fn main(@builtin(global_invocation_id) id: vec3u) {
  let factor = vec4f(params.factor);
  let term = vec4f(params.term);
  let start = vec4f(0.0, 1.0, 2.0, 3.0) + f32(id.x & 7u);
  ${all.map((chain) => `var x${chain} = start + ${4 * chain}.0;`).join(' ')}
  for (var i = 0u; i < params.steps; i += ${unrollFactor}u) {
    ${Array.from({ length: unrollFactor }, () => step).join('\n    ')}
  }
  sums[id.x] = dot(${all.map((chain) => `x${chain}`).join(' + ')}, vec4f(1.0));
}`;
};
/** Steps in one iteration of the loop. */
const unrollFactor = 8;
/**
 * Candidates for the number of chains: which one saturates the arithmetic units without register spills depends on the
 * adapter.
 */
const chainCounts = [1, 2, 3, 4];
/** With more steps, sums would not be exact. */
const maxSteps = 2 ** 18;

async function measureArithmetic(gpu: Gpu, timer: PassTimer, pause: () => Promise<unknown>): Promise<number> {
  const { software } = gpu.caps;
  // Many times the number of concurrent threads on a large GPU.
  const threads = software ? 2 ** 12 : 2 ** 20;
  const minDurationMs = software ? 8 : 4;
  let best = 0;
  for (const chains of chainCounts) {
    await pause();
    const kernel = await makeKernel(gpu, multiplyAddSource(chains), threads);
    try {
      let steps = 64;
      await kernel.time(timer, { steps, factor: 1, term: 1 }); // may compile
      let ms = await kernel.time(timer, { steps, factor: 1, term: 1 });
      while (ms < minDurationMs && steps < maxSteps) {
        steps *= 2;
        ms = await kernel.time(timer, { steps, factor: 1, term: 1 });
      }
      for (let round = 0; round < rounds; round++) {
        ms = Math.min(ms, await kernel.time(timer, { steps, factor: 1, term: 1 }));
      }
      const values = 4 * chains;
      const starts = (values * (values - 1)) / 2;
      await kernel.check((thread) => starts + values * ((thread & 7) + steps));
      best = Math.max(best, (2 * threads * values * steps) / ms / 1e6);
    } finally {
      kernel.destroy();
    }
  }
  return best;
}

/** Number of 16-byte words that fit in the cache: a power of two. */
const cachedWords = (software: boolean): number => (software ? 2 ** 14 : 2 ** 18);

/**
 * Kernel whose threads read all words repeatedly, with coalesced loads. All words are ones, so the sum counts the
 * loads.
 */
const cachedReadSource = (words: number): string => /* wgsl */ `${headerSource}
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<storage, read> words: array<vec4u, ${words}>;
@compute @workgroup_size(${workgroupSize})
fn main(@builtin(global_invocation_id) id: vec3u) {
  var all = vec4u(0u);
  var at = id.x;
  for (var i = 0u; i < params.steps; i += ${unrollFactor}u) {
    ${Array.from({ length: unrollFactor }, (_, n) => `all += words[(at + ${n * workgroupSize}u) & ${words - 1}u];`).join('\n    ')}
    at += ${unrollFactor * workgroupSize}u;
  }
  sums[id.x] = f32(all.x + all.y + all.z + all.w);
}`;

async function measureCachedReads(gpu: Gpu, timer: PassTimer): Promise<number> {
  const { software } = gpu.caps;
  const threads = software ? 2 ** 12 : 2 ** 18;
  const words = cachedWords(software);
  const kernel = await makeKernel(gpu, cachedReadSource(words), threads, words);
  const steps = 512;
  try {
    await kernel.time(timer, { steps }); // may compile
    let ms = Number.POSITIVE_INFINITY;
    for (let round = 0; round < rounds; round++) ms = Math.min(ms, await kernel.time(timer, { steps }));
    await kernel.check(() => 4 * steps);
    return (threads * steps * 16) / ms / 1e6;
  } finally {
    kernel.destroy();
  }
}

/** Empty dispatches in one pass: a single one would include the start of the pass. */
const emptyDispatches = 32;

async function measureEmptyDispatch(gpu: Gpu, timer: PassTimer): Promise<number> {
  const kernel = await makeKernel(gpu, multiplyAddSource(1), workgroupSize);
  try {
    await kernel.time(timer, { steps: 0 }); // may compile
    let ms = Number.POSITIVE_INFINITY;
    for (let n = 0; n < 9; n++) {
      ms = Math.min(ms, await kernel.time(timer, { steps: 0, repeats: emptyDispatches }));
    }
    return ms / emptyDispatches;
  } finally {
    kernel.destroy();
  }
}

/** @param words number of 16-byte words at binding 2, filled with ones; 0 for kernels without the binding */
async function makeKernel({ device }: Gpu, code: string, threads: number, words = 0) {
  const { STORAGE, UNIFORM, COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage;
  const params = device.createBuffer({ label: 'peaks.params', size: 16, usage: UNIFORM | COPY_DST });
  const sums = device.createBuffer({ label: 'peaks.sums', size: threads * 4, usage: STORAGE | COPY_SRC });
  const input = device.createBuffer({
    label: 'peaks.words',
    size: Math.max(1, words) * 16,
    usage: STORAGE | COPY_DST,
  });
  const buffers = [params, sums, ...(words > 0 ? [input] : [])];
  const destroy = () => {
    for (const buffer of [params, sums, input]) buffer.destroy();
  };
  try {
    if (words > 0) device.queue.writeBuffer(input, 0, new Uint32Array(words * 4).fill(1));
    const module = device.createShaderModule({ label: 'peaks', code });
    const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module } });
    const bindGroup = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    return {
      destroy,
      /** GPU time of all repeats, in ms. */
      async time(timer: PassTimer, { steps, factor = 0, term = 0, repeats = 1 }: PeakRun): Promise<number> {
        const data = new DataView(new ArrayBuffer(16));
        data.setUint32(0, steps, true);
        data.setFloat32(4, factor, true);
        data.setFloat32(8, term, true);
        device.queue.writeBuffer(params, 0, data.buffer);
        return timer.time((pass) => {
          pass.setPipeline(pipeline);
          pass.setBindGroup(0, bindGroup);
          for (let n = 0; n < repeats; n++) pass.dispatchWorkgroups(threads / workgroupSize);
        });
      },
      /** Verifies the results of the last dispatch. */
      async check(expected: (thread: number) => number): Promise<void> {
        const usage = MAP_READ | COPY_DST;
        const readback = device.createBuffer({ label: 'peaks.readback', size: threads * 4, usage });
        try {
          const encoder = device.createCommandEncoder();
          encoder.copyBufferToBuffer(sums, 0, readback, 0, threads * 4);
          device.queue.submit([encoder.finish()]);
          await readback.mapAsync(GPUMapMode.READ);
          const got = new Float32Array(readback.getMappedRange());
          const wrongIndex = got.findIndex((value, thread) => value !== expected(thread));
          if (wrongIndex < 0) return;
          throw new Error(
            `the adapter computed ${got[wrongIndex]} in thread ${wrongIndex} of a peak measurement, expected ${expected(wrongIndex)}`,
          );
        } finally {
          readback.destroy();
        }
      },
    };
  } catch (error) {
    destroy();
    throw error;
  }
}
