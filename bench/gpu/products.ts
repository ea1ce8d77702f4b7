/**
 * `node bench/gpu/products.ts [--shapes LIST] [--tokens LIST] [--format NAME] [--features LIST] [--rounds N]`: times the kernels
 * of matrix products at the shapes of a model. Weights rotate over copies that are larger than any cache. Prints, for each
 * kernel, the median time, the rate of reading weights, the rate of arithmetic, and the difference to the first kernel.
 */
import { parseArgs } from 'node:util';
import type { Variant } from '../../kernels/assemble.ts';
import { emptyStepDims, eraseVariant, type Kernel, packParams, type StepDims } from '../../kernels/define.ts';
import {
  matmulMatrix,
  type MatmulParams,
  matmulTile,
  matvec,
  matvecPacked,
  plainProductParams,
} from '../../kernels/matmul.ts';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { PassTimer } from '../../src/engine/gpu/pass-timer.ts';
import { PipelineCache } from '../../src/engine/gpu/pipelines.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { readDawnFeatures } from '../platform.ts';
import { median } from '../statistics.ts';

const { values } = parseArgs({
  options: {
    shapes: { type: 'string', default: '6144x4096,4096x4096,28672x4096,4096x14336' },
    tokens: { type: 'string', default: '1,8,512' },
    format: { type: 'string', default: 'q4_0' },
    features: { type: 'string', default: '' },
    rounds: { type: 'string', default: '7' },
    repeats: { type: 'string', default: '16' },
    adapter: { type: 'string' },
  },
});
const features = readDawnFeatures(values.features);
const platform = nodePlatform();
const gpu = await openGpu(
  await platform.requestAdapter({
    features,
    ...(values.adapter === undefined ? {} : { adapter: values.adapter }),
  }),
  platform.backend,
);
const { device, caps } = gpu;
const pipelines = new PipelineCache(device, await platform.wgsl());
const lanes = caps.subgroupSize ?? 0;
const format = values.format;
const rounds = Number(values.rounds);
const repeats = Number(values.repeats);
/** Bytes of a block's quants and of its scale, as the kernels read them. */
const blockBytes: Readonly<Record<string, readonly [quants: number, scales: number]>> = {
  q4_0: [16, 2],
  q4_k: [16, 2.5],
  q8_0: [32, 2],
  q6_k: [16, 10.5],
  f16: [64, 0],
};
const [quantBytes, scaleBytes] = blockBytes[format] ?? [0, 0];
/** The weights of one round are at least this large, so that no cache holds them. */
const rotatedBytes = 600e6;

interface Candidate {
  readonly name: string;
  readonly kernel: Kernel<Variant, MatmulParams>;
  readonly variant: Variant;
}

function candidates(tokens: number): Candidate[] {
  const list: Candidate[] = [];
  const base = { FORMAT: format, FIXED: false };
  if (tokens <= 32) {
    const COLS = Math.min(tokens, 8);
    for (const [SUBS, ROWS] of [
      [8, 4],
      [4, 4],
      [4, 8],
      [4, 2],
    ] as const) {
      const tileBlocks = Math.max(lanes, Math.max(128, 4 * lanes) / COLS);
      const variant = { ...base, SUBGROUPS: true, LANES: lanes, COLS, ROWS, SUBS, TILE_BLOCKS: tileBlocks };
      list.push({
        name: `packed subs ${SUBS} rows ${ROWS}`,
        kernel: eraseVariant(matvecPacked),
        variant,
      });
    }
    for (const [SUBS, SHARE] of [
      [4, 4],
      [4, 2],
    ] as const) {
      const variant = { ...base, COLS, ROWS: 4, SUBGROUPS: lanes > 0, LANES: lanes || 32, SUBS, SHARE };
      list.push({ name: `matvec subs ${SUBS} share ${SHARE}`, kernel: eraseVariant(matvec), variant });
    }
  }
  if (tokens >= 8) {
    if (caps.matrix) {
      for (const [TILE_ROWS, TILE_TOKENS, STEP] of [
        [128, 128, 1],
        [64, 128, 1],
        [64, 64, 2],
      ] as const) {
        const variant = { ...base, MATRIX: true, F16: true, TILE_ROWS, TILE_TOKENS, STEP };
        list.push({
          name: `matrix ${TILE_ROWS} x ${TILE_TOKENS} step ${STEP}`,
          kernel: eraseVariant(matmulMatrix),
          variant,
        });
      }
    }
    for (const F16 of caps.f16 ? [true, false] : [false])
      list.push({
        name: `tile 64 ${F16 ? 'f16' : 'f32'}`,
        kernel: eraseVariant(matmulTile),
        variant: { ...base, F16, TILE: 64 },
      });
  }
  return list;
}

const storage = (label: string, size: number) =>
  device.createBuffer({
    label,
    size: Math.ceil(size / 256) * 256,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
  });

/** Random words; as f16 they are between 2^-5 and 2^-4, which suits scales. */
function randomWords(words: number, areScales: boolean): Uint32Array<ArrayBuffer> {
  const out = new Uint32Array(words);
  let state = 0x9e3779b9;
  for (let i = 0; i < words; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    out[i] = areScales ? (state & 0x03ff03ff) | 0x28002800 : state;
  }
  return out;
}

async function readBack(buffer: GPUBuffer, size: number): Promise<Float32Array> {
  const readback = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, readback, 0, size);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const copy = new Float32Array(readback.getMappedRange().slice(0));
  readback.destroy();
  return copy;
}

const timer = new PassTimer(gpu);
console.log(`${gpu.facts.description}, ${format}, features: ${features.join(' ') || 'default'}`);
for (const shape of values.shapes.split(',')) {
  const [rows = 0, columns = 0] = shape.split('x').map(Number);
  const blocks = columns / 32;
  const weightBytes = rows * blocks * (quantBytes + scaleBytes);
  const copies = Math.max(1, Math.min(repeats, Math.ceil(rotatedBytes / weightBytes)));
  const quants = storage('quants', rows * blocks * quantBytes * copies);
  const scales = storage('scales', Math.max(256, rows * blocks * scaleBytes * copies));
  const isFloat = format === 'f16';
  const pattern = randomWords(1 << 20, isFloat);
  for (const [buffer, words] of [
    [quants, pattern],
    [scales, randomWords(1 << 20, true)],
  ] as const)
    for (let at = 0; at < buffer.size; at += words.byteLength)
      device.queue.writeBuffer(buffer, at, words, 0, Math.min(words.length, (buffer.size - at) / 4));
  for (const tokens of values.tokens.split(',').map(Number)) {
    const padded = Math.ceil(tokens / 8) * 8;
    const x = storage('x', padded * columns * 4);
    device.queue.writeBuffer(
      x,
      0,
      Float32Array.from({ length: tokens * columns }, (_, i) => ((i * 37) % 101) / 50 - 1),
    );
    const y = storage('y', padded * rows * 4);
    const [vectors, squares, scaled] = ['vectors', 'squares', 'scaled'].map((name) => storage(name, 256)) as [
      GPUBuffer,
      GPUBuffer,
      GPUBuffer,
    ];
    const stepBuffer = device.createBuffer({
      size: 32,
      usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
    });
    const setStep = (decodeRows: number) =>
      device.queue.writeBuffer(stepBuffer, 0, new Uint32Array([tokens, tokens, 0, decodeRows]));
    const params = plainProductParams({ rows, blocks });
    let expected: Float32Array | undefined;
    for (const { name, kernel, variant } of candidates(tokens)) {
      try {
        const { pipeline, layout } = await pipelines.get(kernel, variant);
        const uniform = device.createBuffer({
          size: 64,
          usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
        });
        device.queue.writeBuffer(uniform, 0, packParams(kernel, params));
        const groups = Array.from({ length: copies }, (_, copy) => {
          const resources: Readonly<Record<string, GPUBindingResource>> = {
            quants: {
              buffer: quants,
              offset: copy * rows * blocks * quantBytes,
              size: rows * blocks * quantBytes,
            },
            scales: {
              buffer: scales,
              offset: copy * rows * blocks * scaleBytes,
              size: Math.max(256, rows * blocks * scaleBytes),
            },
            vectors: { buffer: vectors },
            x: { buffer: x },
            y: { buffer: y },
            params: { buffer: uniform },
            step: { buffer: stepBuffer, offset: 0, size: 16 },
            squares: { buffer: squares },
            scaled: { buffer: scaled },
          };
          const entries = kernel
            .bindings(variant)
            .flatMap((binding, index) =>
              binding ? [{ binding: index, resource: resources[binding[0]] as GPUBindingResource }] : [],
            );
          return device.createBindGroup({ layout, entries });
        });
        const decodeRows = kernel.rows === 'decode' ? tokens : 0;
        setStep(decodeRows);
        const dims: StepDims = { ...emptyStepDims, tokens, decodeRows, samples: tokens };
        const grid = kernel.grid(variant, params, dims);
        const encode =
          (count: number, first = 0) =>
          (pass: GPUComputePassEncoder) => {
            pass.setPipeline(pipeline);
            for (let n = 0; n < count; n++) {
              pass.setBindGroup(0, groups[(first + n) % copies] as GPUBindGroup);
              pass.dispatchWorkgroups(...grid);
            }
          };
        device.queue.writeBuffer(y, 0, new Float32Array(padded * rows).fill(Number.NaN));
        await timer.time(encode(1));
        const got = (await readBack(y, tokens * rows * 4)).slice();
        expected ??= got;
        let error = 0;
        let power = 0;
        for (let i = 0; i < got.length; i++) {
          error += ((got[i] as number) - (expected[i] as number)) ** 2;
          power += (expected[i] as number) ** 2;
        }
        const times: number[] = [];
        for (let round = 0; round < rounds; round++)
          times.push((await timer.time(encode(repeats, round))) / repeats);
        const ms = median(times);
        const rate = (2 * rows * columns * tokens) / ms / 1e9;
        console.log(
          `${shape} x ${tokens}  ${name.padEnd(30)} ${(ms * 1000).toFixed(1).padStart(8)} us ${(weightBytes / ms / 1e6).toFixed(0).padStart(6)} GB/s ${rate.toFixed(1).padStart(6)} TFLOP/s  nmse ${(error / power).toExponential(1)}`,
        );
      } catch (error) {
        console.log(`${shape} x ${tokens}  ${name}: ${(error as Error).message.slice(0, 300)}`);
      }
    }
    for (const buffer of [x, y, vectors, squares, scaled]) buffer.destroy();
  }
  quants.destroy();
  scales.destroy();
}
process.exit();
