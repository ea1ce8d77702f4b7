import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { blockColumns, weightFormats } from '../../../kernels/formats.ts';
import type { Variant } from '../../../kernels/assemble.ts';
import type { Kernel } from '../../../kernels/define.ts';
import {
  matmul,
  matmulFlags,
  matmulMatrix,
  type MatmulParams,
  matmulTile,
  matmulTileInt8,
  matvec,
  matvecPacked,
  plainProductParams,
} from '../../../kernels/matmul.ts';
import {
  type Activation,
  dequantizeRows,
  gatedActivation,
  matmul as reference,
  rmsNorm,
  type WeightType,
} from '../../../kernels/reference/index.ts';
import { repack } from '../../../src/engine/loading/repack.ts';
import {
  expectClose,
  expectUntouched,
  type Fault,
  type KernelHarness,
  kernelHarness,
  poison,
  poisoned,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import { isSampleFormat, runsRest, selectCases, selectVariants, tier } from '../../support/tier.ts';
import { sampleRows, wholeColumns } from '../../support/random-blocks.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const typeOf = new Map<string, WeightType>(
  Object.entries(weightFormats).map(([type, format]) => [format.name, type as WeightType]),
);

interface Case {
  tokens: number;
  rows: number;
  columns: number;
  bias?: boolean;
  add?: boolean;
  sampled?: boolean;
  stride?: number;
  offset?: number;
  normIn?: boolean;
  normOut?: boolean;
  /** Magnitude of the activations. */
  size?: number;
  /** Half of the rows are gate, half are up. */
  gated?: boolean;
  /** With `gated`: GELU (tanh) instead of silu. */
  geluTanh?: boolean;
  /** Factor of the results. */
  scale?: number;
}

const eps = 1e-5;
/** Number of rows whose squares a kernel sums together. */
const partOf = (variant: Variant): number => (variant['WG'] === undefined ? 4 : Number(variant['LANES']));

async function runCase<V extends Variant>(
  kernel: Kernel<V, MatmulParams>,
  variant: V,
  shape: Case,
  seed: number,
  by: KernelHarness = harness,
): Promise<void> {
  const { tokens, rows, bias = false, add = false, sampled = false, offset = 0 } = shape;
  const { normIn = false, normOut = false, gated = false, size = 1 } = shape;
  const { geluTanh = false, scale = 1 } = shape;
  const outputs = gated ? rows / 2 : rows;
  const stride = shape.stride ?? outputs;
  const type = typeOf.get(String(variant['FORMAT'])) as WeightType;
  const columns = wholeColumns(type, shape.columns);
  const int8 = kernel.source.includes('int8');
  const columnsAtOnce = Number(variant['COLS'] ?? variant['TILE'] ?? 64);
  const next = random(seed);
  const padded = Math.ceil(columns / blockColumns) * blockColumns;
  const raw = sampleRows(type, { rows, columns }, next);
  const weight = dequantizeRows(type, raw, { rows, columns });
  const { quants, scales } = repack(type, raw, rows, columns);
  const x = randomValues(tokens * columns, next, size);
  // Rows are padded to blocks with zeros; rows after the last token hold garbage that must not matter.
  const paddedTokens = Math.ceil(tokens / columnsAtOnce) * columnsAtOnce;
  const given = new Float32Array(paddedTokens * padded).fill(1e30);
  for (let t = 0; t < tokens; t++) {
    given.fill(0, t * padded, (t + 1) * padded);
    given.set(x.subarray(t * columns, (t + 1) * columns), t * padded);
  }
  const biases = randomValues(rows, next);
  const before = randomValues(tokens * rows, next);
  const y = poisoned((tokens + 2) * stride);
  if (add)
    for (let t = 0; t < tokens; t++) y.set(before.subarray(t * rows, (t + 1) * rows), t * stride + offset);
  // The output of the kernel that prepares a norm: the row times its weight, and its squares in parts.
  const normGain = randomValues(columns, next);
  const part = partOf(variant);
  const widthOfNorm = normIn ? columns : rows;
  const parts = Math.ceil(widthOfNorm / part);
  const squares = poisoned((paddedTokens + 2) * parts);
  let input: Float32Array | Float64Array = x;
  if (normIn) {
    for (let t = 0; t < tokens; t++) {
      for (let p = 0; p < parts; p++) {
        let sum = 0;
        for (let c = p * part; c < Math.min(columns, (p + 1) * part); c++)
          sum += (x[t * columns + c] as number) ** 2;
        squares[t * parts + p] = sum;
      }
      for (let c = 0; c < columns; c++)
        given[t * padded + c] = (x[t * columns + c] as number) * (normGain[c] as number);
    }
    input = rmsNorm(x, normGain, { rows: tokens, cols: columns, eps });
  }
  const normWeight = randomValues(rows, next);
  const scaled = poisoned((tokens + 2) * stride);
  const out = await by.run(
    kernel,
    variant,
    {
      params: {
        rows,
        blocks: padded / blockColumns,
        out_stride: stride,
        out_offset: offset,
        flags:
          (bias ? matmulFlags.bias : 0) |
          (add ? matmulFlags.add : 0) |
          (sampled ? matmulFlags.sampled : 0) |
          (normIn ? matmulFlags.normIn : 0) |
          (normOut ? matmulFlags.normOut : 0) |
          (gated ? matmulFlags.gated : 0) |
          (geluTanh ? matmulFlags.geluTanh : 0),
        bias_offset: 0,
        norm_weight_offset: rows,
        half: rows / 2,
        parts,
        width: widthOfNorm,
        eps,
        loop_limit: 1024,
        scale,
      },
      // If a kernel used the other kind of rows, it would write too far.
      dims: sampled ? { tokens: tokens + 2, samples: tokens } : { tokens, samples: tokens + 2 },
      buffers: {
        quants,
        scales: scales ?? new Uint32Array(4),
        vectors: Float32Array.from([...biases, ...normWeight]),
        x: given,
        y,
        squares,
        scaled,
      },
    },
    ['y', 'squares', 'scaled'],
  );
  const got = new Float32Array(out['y'] as ArrayBuffer);
  const product = reference(
    input,
    weight,
    { tokens, inputs: columns, outputs: rows },
    { bias: bias ? biases : undefined, scale, residual: add ? before : undefined },
  );
  const expected = Array.from(
    gated ? halves(product, tokens, rows, geluTanh ? 'gelu_tanh' : 'silu') : product,
  );
  const rowsGot: number[] = [];
  for (let t = 0; t < tokens; t++) {
    for (const value of got.subarray(t * stride + offset, t * stride + offset + outputs)) rowsGot.push(value);
  }
  // f16 tiles round weights and activations to 11 bits.
  // 8 bits are off by up to half of 1/127 of a block's maximum: (3 rms / 127)^2 / 12 of the power.
  const plain = int8
    ? { nmse: 5e-5, maxAbs: 0.5 }
    : variant['F16']
      ? { nmse: 1e-6, maxAbs: 0.1 }
      : 'TILE_BLOCKS' in variant
        ? // Columns are rounded to 16 bits per block.
          { nmse: 1e-8, maxAbs: 0.01 }
        : { nmse: 1e-10, maxAbs: 1e-3 };
  // A gated result is a product of two such sums, some of several hundred.
  const tolerance = gated ? { nmse: plain.nmse * 2, maxAbs: plain.maxAbs * 20 } : plain;
  expectClose(rowsGot, expected, tolerance, variantName(variant));
  // Nothing is written next to or after the result.
  const words = new Uint32Array(out['y'] as ArrayBuffer);
  const outside = [...words].filter((_, index) => {
    const t = Math.floor(index / stride);
    const column = (index % stride) - offset;
    return index < (tokens + 2) * stride && (t >= tokens || column < 0 || column >= outputs);
  });
  expect(outside.every((word) => word === 0x7fc0dead)).toBe(true);

  const besides = new Float32Array(out['scaled'] as ArrayBuffer);
  const sums = new Float32Array(out['squares'] as ArrayBuffer);
  if (!normOut) {
    expectUntouched(out['scaled'] as ArrayBuffer, scaled, () => false, 'scaled');
    expectUntouched(out['squares'] as ArrayBuffer, squares, () => false, 'squares');
    return;
  }
  const scaledGot: number[] = [];
  const scaledExpected: number[] = [];
  const sumsExpected: number[] = [];
  for (let t = 0; t < tokens; t++) {
    scaledGot.push(...besides.subarray(t * stride + offset, t * stride + offset + rows));
    const row = expected.slice(t * rows, (t + 1) * rows);
    row.forEach((value, n) => scaledExpected.push(value * (normWeight[n] as number)));
    for (let n = 0; n < rows; n += part) {
      sumsExpected.push(row.slice(n, n + part).reduce((sum, value) => sum + value * value, 0));
    }
  }
  expectClose(scaledGot, scaledExpected, { ...tolerance, maxAbs: 2 * tolerance.maxAbs }, 'scaled');
  expectClose(
    sums.subarray(0, tokens * parts),
    sumsExpected,
    { nmse: tolerance.nmse, maxAbs: 100 },
    'squares',
  );
  expectUntouched(out['squares'] as ArrayBuffer, squares, (word) => word < tokens * parts, 'squares');
}

/** activation(gate) * up of rows that hold both. */
function halves(rows: ArrayLike<number>, tokens: number, width: number, activation: Activation): number[] {
  const all = Array.from(rows);
  return Array.from({ length: tokens }, (_, t) => {
    const row = all.slice(t * width, (t + 1) * width);
    const [gate, up] = [row.slice(0, width / 2), row.slice(width / 2)];
    return [...gatedActivation(Float64Array.from(gate), Float64Array.from(up), activation)];
  }).flat();
}

/** Cases of a variant that has its flags as constants: those flags, and no others. */
function fixedCases(flags: number): Case[] {
  const has = (flag: number) => (flags & flag) !== 0;
  const options = {
    bias: has(matmulFlags.bias),
    add: has(matmulFlags.add),
    sampled: has(matmulFlags.sampled),
    normIn: has(matmulFlags.normIn),
    normOut: has(matmulFlags.normOut),
    gated: has(matmulFlags.gated),
    geluTanh: has(matmulFlags.geluTanh),
  };
  const strided = options.normOut ? {} : { stride: 411, offset: 7 };
  return [
    { tokens: 1, rows: 2, columns: 32, ...options },
    { tokens: 1, rows: 58, columns: 992, ...options },
    { tokens: 1, rows: 300, columns: 96, ...options, ...strided, ...(options.gated ? {} : { scale: 0.22 }) },
  ];
}

/** Formats that every variant is run in. */
const thorough = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'];

/** For the other formats, which only differ in how a block is read: few tokens and many for each kernel. */
function isSample({ FORMAT, COLS, ROWS, WG, LANES, TILE, TILE_BLOCKS, F16, FLAGS = 0 }: Variant): boolean {
  if (thorough.includes(String(FORMAT))) return true;
  if (COLS === undefined) return TILE === undefined || (TILE === 64) === F16;
  const most = TILE_BLOCKS !== undefined && LANES === 64 ? 4 : 8;
  return FLAGS === 0 && (COLS === most ? ROWS === 4 : COLS === 1 && (ROWS === 2 || WG === undefined));
}

/** What happens to the sums does not depend on the format, so the flags are tested with one. */
const worthRunning = (variant: Variant): boolean =>
  isSample(variant) &&
  (!variant['FLAGS'] || variant['FORMAT'] === 'q8_0' || variant['FLAGS'] === matmulFlags.bias);

/** Awkward shapes: one row, primes, strided results, more tokens than one pass serves. */
function casesFor(variant: Variant): Case[] {
  if (variant['FIXED']) return fixedCases(Number(variant['FLAGS']));
  const width = Number(variant['COLS'] ?? variant['TILE'] ?? 64);
  const cases: Case[] =
    width === 1
      ? [
          { tokens: 1, rows: 1, columns: 32 },
          { tokens: 1, rows: 57, columns: 992, sampled: true },
          { tokens: 1, rows: 300, columns: 96, bias: true, add: true, stride: 411, offset: 7 },
        ]
      : [
          { tokens: 3, rows: 57, columns: 992, sampled: true },
          { tokens: width + 1, rows: 130, columns: 64, add: true },
          { tokens: 2 * width, rows: 33, columns: 160, bias: true, stride: 40, offset: 4 },
        ];
  // Norms are fused through subgroup sums, or through a tile's own threads.
  if (variant['SUBGROUPS'] !== false) {
    cases.push({ tokens: width === 1 ? 1 : width + 1, rows: 57, columns: 64, add: true, normOut: true });
    cases.push({ tokens: width === 1 ? 1 : 3, rows: 40, columns: 96, bias: true, normOut: true });
    cases.push({ tokens: width === 1 ? 1 : width + 2, rows: 45, columns: 160, bias: true, normIn: true });
    cases.push({ tokens: width === 1 ? 1 : 3, rows: 86, columns: 64, normIn: true, gated: true });
    // Rows of some models exceed f16 before their norm.
    cases.push({ tokens: width === 1 ? 1 : 3, rows: 40, columns: 64, normIn: true, size: 1e5 });
  }
  cases.push({ tokens: width === 1 ? 1 : width + 1, rows: 2 * 131, columns: 64, gated: true, stride: 140 });
  const odd = { tokens: width === 1 ? 1 : 3, columns: 64 };
  cases.push({ ...odd, rows: 86, gated: true, geluTanh: true });
  cases.push({ ...odd, rows: 45, bias: true, add: true, scale: -0.22 });
  // Plain types need not have whole blocks of columns.
  if (['f32', 'f16', 'bf16'].includes(String(variant['FORMAT']))) {
    cases.push({ tokens: 2, rows: 57, columns: 1001 });
  }
  return cases;
}

/** @param isSampled of the variants that `npm test` runs */
function testKernel<V extends Variant>(
  kernel: Kernel<V, MatmulParams>,
  isSampled: (variant: V) => boolean = () => true,
): void {
  describe(`${kernel.source} equals the oracle`, () => {
    for (const variant of selectVariants(kernel.variants.filter(worthRunning), isSampled)) {
      it(variantName(variant), async () => {
        for (const [index, shape] of casesFor(variant).entries()) {
          await runCase(kernel, variant, shape, index + 1);
        }
      });
    }
  });
}

/** Flags and formats that no test above combines: the source of each is run above, with other parts. */
describe.runIf(runsRest)('every other variant, emulated, equals the oracle for a few rows', () => {
  it.each([matvec, matmul, matvecPacked, matmulTile] as unknown as Kernel<Variant, MatmulParams>[])(
    '$source',
    async (kernel) => {
      const emulator = await kernelHarness(undefined, { emulates: 'all' });
      const others = kernel.variants.filter((variant) => !worthRunning(variant));
      expect(others.length).toBeGreaterThan(20);
      for (const [n, variant] of others.entries()) {
        const [fixed = {}] = variant['FIXED'] ? fixedCases(Number(variant['FLAGS'] ?? 0)) : [];
        const tokens = Math.max(1, Math.min(Number(variant['COLS'] ?? 3), 8) - 1);
        const shape = { ...fixed, tokens: variant['FIXED'] ? 1 : tokens, rows: 10, columns: 64 };
        await runCase(kernel, variant, shape, n + 1, emulator);
      }
    },
  );
});

testKernel(matmul);
testKernel(matvec);
testKernel(matvecPacked, ({ FORMAT }) => isSampleFormat(FORMAT));

const allProducts = [
  matmul,
  matvec,
  matvecPacked,
  matmulTile,
  matmulTileInt8,
  matmulMatrix,
] as unknown as Kernel<Variant, MatmulParams>[];

describe('as many rows as the largest vocabularies', () => {
  const dims = {
    tokens: 1,
    samples: 1,
    splits: 1,
    singleTiles: 0,
    splitTiles: 0,
    wideTiles: 0,
    hasConsecutiveTiles: false,
    sequenceRuns: 1,
  };

  it.skipIf(tier === 'rest').each([65_535 * 4, 262_144, 262_208])(
    '%i fit a dispatch of every kernel',
    (rows) => {
      for (const kernel of allProducts) {
        for (const variant of kernel.variants) {
          const [x, y, z] = kernel.grid(variant, { rows, flags: 0 } as MatmulParams, {
            ...dims,
            decodeRows: kernel.rows === 'decode' ? 1 : 0,
            needsLogitAdjustment: false,
            needsLogprobs: false,
          });
          expect(Math.max(x, y, z), kernel.source).toBeLessThanOrEqual(65_535);
          expect(y).toBe(1);
        }
      }
    },
  );

  it.runIf(runsRest).each([262_211, 262_144])('%i by matvec equal the oracle', async (rows) => {
    for (const variant of matvec.variants) {
      // Too many workgroups for the emulator.
      if (variant.FORMAT !== 'q8_0' || variant.COLS !== 1 || !harness.supports(variant)) continue;
      await runCase(matvec, variant, { tokens: 1, rows, columns: 32 }, 5);
    }
  });
});
testKernel(matmulTile, ({ FORMAT }) => isSampleFormat(FORMAT));
testKernel(matmulTileInt8);
testKernel(matmulMatrix);

describe('a token with NaN', () => {
  it.each(allProducts)('gives NaN, and other tokens give numbers: $source', async (kernel) => {
    const [rows, columns, tokens, damaged] = [64, 64, 5, 3];
    const raw = sampleRows('Q8_0', { rows, columns }, random(8));
    const { quants, scales = new Uint32Array(4) } = repack('Q8_0', raw, rows, columns);
    const x = randomValues(tokens * columns, random(7));
    x[damaged * columns + 40] = Number.NaN;
    const all = kernel.variants.filter(
      (one) => one['FORMAT'] === 'q8_0' && !one['FIXED'] && (one['COLS'] ?? 8) === 8,
    );
    const variants = selectVariants(all, () => true, runsRest ? 'all' : tier);
    for (const variant of variants) {
      const out = await harness.run(
        kernel,
        variant,
        {
          params: plainProductParams({ rows, blocks: columns / 32 }),
          dims: { tokens },
          buffers: {
            quants,
            scales,
            vectors: new Float32Array(4),
            // Kernels may read rows after the last token.
            x: Float32Array.from({ length: 64 * columns }, (_, i) => x[i] ?? 0),
            y: poisoned(tokens * rows),
            squares: new Float32Array(4),
            scaled: new Float32Array(4),
          },
        },
        ['y'],
      );
      const y = new Float32Array(out['y'] as ArrayBuffer);
      const wrong = [...y.subarray(0, tokens * rows).keys()].filter(
        (at) => Number.isNaN(y[at]) !== (Math.floor(at / rows) === damaged),
      );
      expect(wrong, variantName(variant)).toEqual([]);
    }
  });
});

/** Formats whose variants are compared with each other: one of each kind of block, because the order of sums is the kernel's. */
const comparedFormats = selectCases([...typeOf.keys()].filter(isSampleFormat), (name) => name === 'q8_0');

/**
 * The same eight tokens with every variant of a kernel, by format and lanes.
 * @param decodeRows of a step with rows of both kinds; by default, all rows are of the kernel's kind
 */
async function sameTokens<V extends Variant>(
  kernel: Kernel<V, MatmulParams>,
  decodeRows?: number,
): Promise<Map<string, Float32Array[]>> {
  const next = random(7);
  const [rows, columns] = [64, 256];
  const x = randomValues(8 * columns, next);
  const results = new Map<string, Float32Array[]>();
  for (const variant of kernel.variants) {
    if (variant['FLAGS'] || !isSample(variant)) continue;
    if (!comparedFormats.includes(String(variant['FORMAT']))) continue;
    const type = typeOf.get(String(variant['FORMAT'])) as WeightType;
    const raw = sampleRows(type, { rows, columns }, random(8));
    const { quants, scales = new Uint32Array(4) } = repack(type, raw, rows, columns);
    const out = await harness.run(
      kernel,
      variant,
      {
        params: plainProductParams({ rows, blocks: columns / 32 }),
        dims: { tokens: 8, ...(decodeRows === undefined ? {} : { decodeRows }) },
        buffers: {
          quants,
          scales,
          vectors: new Float32Array(4),
          x,
          y: poisoned(8 * rows),
          squares: new Float32Array(4),
          scaled: new Float32Array(4),
        },
      },
      ['y'],
    );
    const key = `${type} ${variant['SUBGROUPS']} ${variant['LANES']}`;
    results.set(key, [...(results.get(key) ?? []), new Float32Array(out['y'] as ArrayBuffer)]);
  }
  return results;
}

describe('a token gives the same result with any other tokens', () => {
  for (const kernel of [matmul, matvec, matvecPacked]) {
    it(`${kernel.source} gives the same bits for any number of tokens in a pass`, async () => {
      const byLanes = await sameTokens(kernel as Kernel<Variant, MatmulParams>);
      const formats = new Set<unknown>(kernel.variants.map(({ FORMAT }) => FORMAT));
      expect(byLanes.size).toBeGreaterThanOrEqual(comparedFormats.filter((name) => formats.has(name)).length);
      for (const results of byLanes.values()) {
        expect(results.length).toBeGreaterThan(1);
        for (const result of results) expect(result).toEqual(results[0]);
      }
    });
  }
});

describe('a step with decoded rows and rows of prompts', () => {
  it.each([matvec, matvecPacked, matmulTile, matmulMatrix] as unknown as Kernel<Variant, MatmulParams>[])(
    '$source computes the rows of its kind, the same as without the others',
    async (kernel) => {
      const whole = await sameTokens(kernel);
      const decodeRows = 3;
      for (const [key, results] of await sameTokens(kernel, decodeRows)) {
        for (const [n, result] of results.entries()) {
          const all = whole.get(key)?.[n] ?? result;
          const expected = new Uint32Array(all.slice().buffer);
          const end = decodeRows * (expected.length / 8);
          if (kernel.rows === 'decode') expected.fill(poison, end);
          else expected.fill(poison, 0, end);
          expect(new Uint32Array(result.slice().buffer), key).toEqual(expected);
        }
      }
    },
  );
});

describe('faults that show only with many lanes, in f16 or on matrix units are noticed', () => {
  interface FaultyKernel extends Fault {
    readonly kernel: Kernel<Variant, MatmulParams>;
    readonly variant: Variant;
    readonly shape: Case;
    /** A variant that the fault does not change, which is why only others show it. */
    readonly unchanged?: Variant;
  }
  const variantOf = (kernel: unknown, options: Variant): Pick<FaultyKernel, 'kernel' | 'variant'> => {
    const known = kernel as Kernel<Variant, MatmulParams>;
    const variant = known.variants.find((one) =>
      Object.entries(options).every(([name, value]) => one[name] === value),
    );
    if (!variant) throw new Error(`no variant ${variantName(options)}`);
    return { kernel: known, variant };
  };
  const withLanes = (
    kernel: unknown,
    lanes: number,
    options: Variant = {},
  ): Omit<FaultyKernel, keyof Fault | 'shape'> => {
    const all = { FORMAT: 'q8_0', COLS: 1, ...options };
    return {
      ...variantOf(kernel, { ...all, LANES: lanes, SUBGROUPS: true }),
      unchanged: variantOf(kernel, { ...all, LANES: 8, SUBGROUPS: true }).variant,
    };
  };
  const long = { tokens: 1, rows: 12, columns: 1024 };
  const normed = { tokens: 1, rows: 12, columns: 1024, normIn: true };
  const tile = variantOf(matmulTile, { FORMAT: 'q8_0', F16: true });
  const matrix = variantOf(matmulMatrix, { FORMAT: 'q8_0', STEP: 2 });
  const large = variantOf(matmulMatrix, { FORMAT: 'q8_0', TILE_ROWS: 128 });
  const prompt = { tokens: 37, rows: 70, columns: 96 };
  const faults: FaultyKernel[] = [
    {
      file: 'matvec.wgsl',
      from: 'b += THREADS / SHARE',
      to: 'b += min(THREADS, 64u) / SHARE',
      ...withLanes(matvec, 32),
      shape: long,
    },
    {
      file: 'matvec.wgsl',
      from: 'sum[i] = subgroupAdd(sum[i]);',
      to: 'sum[i] = subgroupAdd(select(0.0, sum[i], lane < 32u));',
      ...withLanes(matvec, 64),
      shape: long,
    },
    {
      file: 'lib/matvec_results.wgsl',
      from: 'p += THREADS',
      to: 'p += min(THREADS, 64u)',
      ...withLanes(matvec, 32),
      shape: normed,
    },
    {
      file: 'lib/matvec_results.wgsl',
      from: 'let i = base + lane;',
      to: 'let i = base + lane % 16u;',
      ...withLanes(matvec, 32, { COLS: 8 }),
      shape: { ...long, tokens: 8 },
    },
    {
      file: 'matvec_packed.wgsl',
      from: 'subgroupShuffleXor(own, 1u)',
      to: 'subgroupShuffleXor(own, max(LANES / 16u, 1u))',
      ...withLanes(matvecPacked, 64),
      shape: long,
    },
    {
      file: 'matvec_packed.wgsl',
      from: 'let i = step_index * LANES + lane;',
      to: 'let i = step_index * LANES + min(lane, 31u);',
      ...withLanes(matvecPacked, 64),
      shape: { ...long, columns: 4096 },
    },
    {
      file: 'matvec_packed.wgsl',
      from: 'let sub = local / LANES;',
      to: 'let sub = local / min(LANES, 32u);',
      ...withLanes(matvecPacked, 64),
      shape: long,
    },
    {
      file: 'matmul_tile.wgsl',
      from: 'fetched[r] = Elem(values * scale_of(four * 4u + r));',
      to: 'fetched[r] = Elem(values) * f16(scale_of(four * 4u + r));',
      ...tile,
      shape: { ...prompt, normIn: true, size: 1e5 },
    },
    {
      file: 'matmul_tile.wgsl',
      from: 'keep_square(local, inverse);',
      to: 'keep_square(local ^ 1u, inverse);',
      ...tile,
      shape: { ...prompt, normIn: true },
    },
    {
      file: 'matmul_matrix.wgsl',
      from: '(group_token + 16u) * STRIDE',
      to: 'group_token * STRIDE',
      ...matrix,
      shape: prompt,
    },
    {
      file: 'matmul_matrix.wgsl',
      from: 'subgroup_matrix_right<f16, 16, 16>, col_major',
      to: 'subgroup_matrix_right<f16, 16, 16>, row_major',
      ...matrix,
      shape: prompt,
    },
    {
      file: 'matmul_matrix.wgsl',
      from: 'b < params.blocks + STEP; b',
      to: 'b < params.blocks; b',
      ...matrix,
      shape: { ...prompt, columns: 64 },
    },
    {
      file: 'matmul_matrix.wgsl',
      from: '* f32(b + quad / 8u < params.blocks)',
      to: '',
      ...matrix,
      shape: prompt,
    },
    {
      file: 'matmul_matrix.wgsl',
      from: 'group_row + r * 16u, sums[t][r]',
      to: 'group_row, sums[t][r]',
      ...large,
      shape: prompt,
    },
  ];
  it.each(faults)('$file: $to', async ({ kernel, variant, unchanged, shape, ...fault }) => {
    const honest = harness;
    onTestFinished(() => {
      harness = honest;
    });
    await runCase(kernel, variant, shape, 5);
    harness = await kernelHarness(fault);
    await expect(runCase(kernel, variant, shape, 5)).rejects.toThrow();
    if (unchanged) await runCase(kernel, unchanged, shape, 5);
  });
});
