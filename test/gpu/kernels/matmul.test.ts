import { beforeAll, describe, expect, it } from 'vitest';
import { blockColumns, weightFormats } from '../../../kernels/formats.ts';
import { matmul, matmulFlags, type MatmulVariant } from '../../../kernels/matmul.ts';
import {
  dequantize,
  matmul as reference,
  quantize,
  type WeightType,
} from '../../../kernels/reference/index.ts';
import { repack } from '../../../src/engine/weights.ts';
import {
  expectClose,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const typeOf = new Map(
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
}

async function runCase(variant: MatmulVariant, shape: Case, seed: number): Promise<void> {
  const { tokens, rows, columns, bias = false, add = false, sampled = false, offset = 0 } = shape;
  const stride = shape.stride ?? rows;
  const type = typeOf.get(variant.FORMAT as 'f32') as WeightType;
  const next = random(seed);
  const padded = Math.ceil(columns / blockColumns) * blockColumns;
  const raw = quantize(type, randomValues(rows * columns, next));
  const weight = dequantize(type, raw, rows * columns);
  const { quants, scales } = repack(type, raw, rows, columns);
  const x = randomValues(tokens * columns, next);
  // Rows are padded to blocks with zeros; rows past the last token hold rubbish that must not matter.
  const paddedTokens = Math.ceil(tokens / variant.COLS) * variant.COLS;
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
  const out = await harness.run(
    matmul,
    variant,
    {
      params: {
        rows,
        blocks: padded / blockColumns,
        out_stride: stride,
        out_offset: offset,
        flags:
          (bias ? matmulFlags.bias : 0) | (add ? matmulFlags.add : 0) | (sampled ? matmulFlags.sampled : 0),
        bias_offset: 0,
        many: 1024,
      },
      // Rows of the other kind would be written too far if they were taken.
      dims: sampled ? { tokens: tokens + 2, samples: tokens } : { tokens, samples: tokens + 2 },
      buffers: { quants, scales: scales ?? new Uint16Array(8), bias: biases, x: given, y },
    },
    ['y'],
  );
  const got = new Float32Array(out['y'] as ArrayBuffer);
  const expected = reference(
    x,
    weight,
    { tokens, inputs: columns, outputs: rows },
    { bias: bias ? biases : undefined, residual: add ? before : undefined },
  );
  const rowsGot: number[] = [];
  for (let t = 0; t < tokens; t++) {
    rowsGot.push(...got.subarray(t * stride + offset, t * stride + offset + rows));
  }
  expectClose(rowsGot, expected, { nmse: 1e-10, maxAbs: 1e-3 }, variantName(variant));
  // Nothing is written beside or below the result.
  const words = new Uint32Array(out['y'] as ArrayBuffer);
  const outside = [...words].filter((_, index) => {
    const t = Math.floor(index / stride);
    const column = (index % stride) - offset;
    return index < (tokens + 2) * stride && (t >= tokens || column < 0 || column >= rows);
  });
  expect(outside.every((word) => word === 0x7fc0dead)).toBe(true);
}

describe('matmul equals the oracle', () => {
  const plain = (format: string, width: number): Case[] =>
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
  for (const variant of matmul.variants) {
    it(variantName(variant), async (context) => {
      if (!harness.supports(variant)) context.skip(`no subgroups of ${variant.LANES} here`);
      const cases = plain(variant.FORMAT, variant.COLS);
      // Plain types need not be whole blocks wide.
      if (['f32', 'f16', 'bf16'].includes(variant.FORMAT)) cases.push({ tokens: 2, rows: 57, columns: 1001 });
      for (const [index, shape] of cases.entries()) await runCase(variant, shape, index + 1);
    });
  }
});

describe('a token is computed alike whatever stands beside it', () => {
  it('gives the same bits with 1, 4 and 8 columns', async () => {
    const next = random(7);
    const [rows, columns] = [64, 256];
    const raw = quantize('Q8_0', randomValues(rows * columns, next));
    const { quants, scales = new Uint16Array(8) } = repack('Q8_0', raw, rows, columns);
    const x = randomValues(8 * columns, next);
    const results: Float32Array[] = [];
    for (const variant of matmul.variants) {
      if (variant.FORMAT !== 'q8_0' || !variant.SUBGROUPS || !harness.supports(variant)) continue;
      const out = await harness.run(
        matmul,
        variant,
        {
          params: {
            rows,
            blocks: columns / 32,
            out_stride: rows,
            out_offset: 0,
            flags: 0,
            bias_offset: 0,
            many: 1024,
          },
          dims: { tokens: 8 },
          buffers: { quants, scales, bias: new Float32Array(4), x, y: poisoned(8 * rows) },
        },
        ['y'],
      );
      results.push(new Float32Array(out['y'] as ArrayBuffer));
    }
    expect(results.length === 0 || results.length === 3).toBe(true);
    for (const result of results) expect(result).toEqual(results[0]);
  });
});
