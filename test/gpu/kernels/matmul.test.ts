import { beforeAll, describe, expect, it } from 'vitest';
import { blockColumns, weightFormats } from '../../../kernels/formats.ts';
import type { Variant } from '../../../kernels/assemble.ts';
import type { Kernel } from '../../../kernels/define.ts';
import { matmul, matmulFlags, type MatmulParams, matmulTile, matvec } from '../../../kernels/matmul.ts';
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
}

async function runCase<V extends Variant>(
  kernel: Kernel<V, MatmulParams>,
  variant: V,
  shape: Case,
  seed: number,
): Promise<void> {
  const { tokens, rows, columns, bias = false, add = false, sampled = false, offset = 0 } = shape;
  const stride = shape.stride ?? rows;
  const type = typeOf.get(String(variant['FORMAT'])) as WeightType;
  const columnsAtOnce = Number(variant['COLS'] ?? 64);
  const next = random(seed);
  const padded = Math.ceil(columns / blockColumns) * blockColumns;
  const raw = quantize(type, randomValues(rows * columns, next));
  const weight = dequantize(type, raw, rows * columns);
  const { quants, scales } = repack(type, raw, rows, columns);
  const x = randomValues(tokens * columns, next);
  // Rows are padded to blocks with zeros; rows past the last token hold rubbish that must not matter.
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
  const out = await harness.run(
    kernel,
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
  // f16 tiles round weights and activations to 11 bits.
  const tolerance = variant['F16'] ? { nmse: 1e-6, maxAbs: 0.1 } : { nmse: 1e-10, maxAbs: 1e-3 };
  expectClose(rowsGot, expected, tolerance, variantName(variant));
  // Nothing is written beside or below the result.
  const words = new Uint32Array(out['y'] as ArrayBuffer);
  const outside = [...words].filter((_, index) => {
    const t = Math.floor(index / stride);
    const column = (index % stride) - offset;
    return index < (tokens + 2) * stride && (t >= tokens || column < 0 || column >= rows);
  });
  expect(outside.every((word) => word === 0x7fc0dead)).toBe(true);
}

/** Awkward shapes: one row, primes, strided results, more tokens than one pass serves. */
function casesFor(variant: Variant): Case[] {
  const width = Number(variant['COLS'] ?? 64);
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
  // Plain types need not be whole blocks wide.
  if (['f32', 'f16', 'bf16'].includes(String(variant['FORMAT']))) {
    cases.push({ tokens: 2, rows: 57, columns: 1001 });
  }
  return cases;
}

function testKernel<V extends Variant>(kernel: Kernel<V, MatmulParams>): void {
  describe(`${kernel.source} equals the oracle`, () => {
    for (const variant of kernel.variants) {
      it(variantName(variant), async (context) => {
        if (!harness.supports(variant)) context.skip(`this adapter cannot run ${variantName(variant)}`);
        for (const [index, shape] of casesFor(variant).entries()) {
          await runCase(kernel, variant, shape, index + 1);
        }
      });
    }
  });
}

testKernel(matmul);
testKernel(matvec);
testKernel(matmulTile);

/** The same eight tokens through every variant of a kernel that this adapter runs, by format and lanes. */
async function sameTokens<V extends Variant>(
  kernel: Kernel<V, MatmulParams>,
): Promise<Map<string, Float32Array[]>> {
  const next = random(7);
  const [rows, columns] = [64, 256];
  const weights = randomValues(rows * columns, next);
  const x = randomValues(8 * columns, next);
  const results = new Map<string, Float32Array[]>();
  for (const variant of kernel.variants) {
    if (!harness.supports(variant)) continue;
    const type = typeOf.get(String(variant['FORMAT'])) as WeightType;
    const { quants, scales = new Uint16Array(8) } = repack(type, quantize(type, weights), rows, columns);
    const out = await harness.run(
      kernel,
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
    const key = `${type} ${variant['SUBGROUPS']} ${variant['LANES']}`;
    results.set(key, [...(results.get(key) ?? []), new Float32Array(out['y'] as ArrayBuffer)]);
  }
  return results;
}

describe('a token is computed alike whatever stands beside it', () => {
  for (const kernel of [matmul, matvec]) {
    it(`${kernel.source} gives the same bits however many tokens share a pass`, async () => {
      const byLanes = await sameTokens(kernel as Kernel<Variant, MatmulParams>);
      expect(byLanes.size).toBeGreaterThanOrEqual(typeOf.size);
      for (const results of byLanes.values()) {
        expect(results.length).toBeGreaterThan(2);
        for (const result of results) expect(result).toEqual(results[0]);
      }
    });
  }
});
