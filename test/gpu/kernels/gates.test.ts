import { beforeAll, describe, it } from 'vitest';
import { gatedNorm } from '../../../kernels/gated-norm.ts';
import {
  gatedNorm as normReference,
  sigmoidGate as gateReference,
} from '../../../kernels/reference/index.ts';
import { sigmoidGate } from '../../../kernels/sigmoid-gate.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const columnsOf = (rows: Float32Array, stride: number, first: number, count: number): Float32Array =>
  Float32Array.from({ length: (rows.length / stride) * count }, (_, i) => {
    return rows[Math.floor(i / count) * stride + first + (i % count)] as number;
  });

/** Gates far out on both sides, where e^-x overflows f32. */
const gates = (count: number, next: () => number) =>
  randomValues(count, next, 8).map((value, i) => (i % 11 === 3 ? value * 20 : value));

describe('gated_norm equals the oracle', () => {
  for (const variant of gatedNorm.variants) {
    it.each([
      { tokens: 1, heads: 1, columns: 16, offset: 0 },
      { tokens: 5, heads: 6, columns: 48, offset: 7 },
      { tokens: 33, heads: 2, columns: 128, offset: 64 },
    ])(
      `${variantName(variant)}: $tokens x $heads heads of $columns`,
      async ({ tokens, heads, columns, offset }) => {
        const next = random(columns + tokens);
        const [stride, gateStride] = [heads * columns + 3, offset + heads * columns + 5];
        const y = randomValues(tokens * stride, next);
        const gate = gates(tokens * gateStride, next);
        const weight = randomValues(columns, next);
        const eps = 1e-5;
        const result = await harness.run(
          gatedNorm,
          variant,
          {
            params: { columns, stride, gate_stride: gateStride, gate_offset: offset, heads, eps },
            dims: { tokens },
            buffers: { weight, gate, y },
          },
          ['y'],
        );
        const expected = normReference(
          columnsOf(y, stride, 0, heads * columns),
          columnsOf(gate, gateStride, offset, heads * columns),
          weight,
          { rows: tokens * heads, cols: columns, eps },
        );
        const bytes = result['y'] as ArrayBuffer;
        const got = new Float32Array(bytes, 0, tokens * stride);
        expectClose(
          columnsOf(got, stride, 0, heads * columns),
          expected,
          { nmse: 1e-11, maxAbs: 2e-3 },
          'normalised',
        );
        const inside = (word: number) => word < tokens * stride && word % stride < heads * columns;
        expectUntouched(bytes, y, inside, 'normalised');
      },
    );
  }
});

describe('sigmoid_gate equals the oracle', () => {
  for (const variant of sigmoidGate.variants) {
    it.each([
      { tokens: 1, columns: 1 },
      { tokens: 9, columns: 130 },
      { tokens: 40, columns: 512 },
    ])(`${variantName(variant)}: $tokens x $columns`, async ({ tokens, columns }) => {
      const next = random(columns);
      const [stride, gateStride] = [columns + 2, columns + 7];
      const y = randomValues(tokens * stride, next);
      const gate = gates(tokens * gateStride, next);
      const result = await harness.run(
        sigmoidGate,
        variant,
        {
          params: { columns, stride, gate_stride: gateStride },
          dims: { tokens },
          buffers: { gate, y },
        },
        ['y'],
      );
      const expected = gateReference(
        columnsOf(y, stride, 0, columns),
        columnsOf(gate, gateStride, 0, columns),
      );
      const bytes = result['y'] as ArrayBuffer;
      const got = columnsOf(new Float32Array(bytes, 0, tokens * stride), stride, 0, columns);
      expectClose(got, expected, { nmse: 1e-12, maxAbs: 1e-4 }, 'gated');
      const inside = (word: number) => word < tokens * stride && word % stride < columns;
      expectUntouched(bytes, y, inside, 'gated');
    });
  }
});
