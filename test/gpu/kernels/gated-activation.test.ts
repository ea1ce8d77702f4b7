import { beforeAll, describe, it } from 'vitest';
import { gatedActivation } from '../../../kernels/gated-activation.ts';
import { gatedActivation as reference } from '../../../kernels/reference/index.ts';
import {
  expectClose,
  expectUntouched,
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

describe('gated_activation equals the oracle', () => {
  for (const variant of gatedActivation.variants) {
    it.each([
      { tokens: 1, columns: 1, stride: 1 },
      { tokens: 1, columns: 32, stride: 32 },
      { tokens: 57, columns: 1001, stride: 1024 },
      { tokens: 3, columns: 100, stride: 128 },
      { tokens: 128, columns: 64, stride: 64 },
    ])(
      `${variantName(variant)}: $tokens x $columns, rows of $stride`,
      async ({ tokens, columns, stride }) => {
        const next = random(columns);
        // Gates far out on both sides, where e^-x overflows f32.
        const gate = randomValues(tokens * columns, next, 8).map((value, i) =>
          i % 11 === 3 ? value * 20 : value,
        );
        const up = randomValues(tokens * columns, next);
        const gateUp = new Float32Array(tokens * columns * 2);
        for (let t = 0; t < tokens; t++) {
          gateUp.set(gate.subarray(t * columns, (t + 1) * columns), 2 * t * columns);
          gateUp.set(up.subarray(t * columns, (t + 1) * columns), (2 * t + 1) * columns);
        }
        const y = poisoned((tokens + 1) * stride);
        const out = await harness.run(
          gatedActivation,
          variant,
          {
            params: { columns, out_stride: stride },
            dims: { tokens },
            buffers: { gate_up: gateUp, y },
          },
          ['y'],
        );
        const expected = reference(gate, up, variant.GELU_TANH ? 'gelu_tanh' : 'silu');
        const got = new Float32Array(out['y'] as ArrayBuffer);
        const rows = Array.from({ length: tokens }, (_, t) => [
          ...got.subarray(t * stride, t * stride + columns),
        ]);
        expectClose(rows.flat(), expected, { nmse: 1e-12, maxAbs: 1e-3 }, 'activated');
        const inside = (word: number) => word < tokens * stride && word % stride < columns;
        expectUntouched(out['y'] as ArrayBuffer, y, inside, 'activated');
      },
    );
  }
});
