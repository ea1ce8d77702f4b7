import { beforeAll, describe, it } from 'vitest';
import { normAdd, type NormAddVariant } from '../../../kernels/norm-add.ts';
import { rmsNorm } from '../../../kernels/reference/index.ts';
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

const tolerance = { nmse: 1e-12, maxAbs: 3e-5 };

interface Rows {
  tokens: number;
  columns: number;
  /** Magnitude of the projection. */
  size?: number;
  eps?: number;
  /** Factor of the sum. */
  scale?: number;
}

async function runRows(variant: NormAddVariant, shape: Rows, seed: number): Promise<void> {
  const { tokens, columns, size = 1, eps = 1e-6, scale = 1 } = shape;
  const next = random(seed);
  const rows = { rows: tokens, cols: columns, eps };
  const x = randomValues(tokens * columns, next, size);
  const weight = randomValues(columns, next);
  const nextWeight = randomValues(columns, next);
  // One row more than there are tokens.
  const y = randomValues((tokens + 1) * columns, next);
  const out = poisoned((tokens + 1) * columns);
  const done = await harness.run(
    normAdd,
    variant,
    {
      params: { columns, eps, scale },
      dims: { tokens },
      buffers: { weight, x, y, next_weight: nextWeight, out },
    },
    variant.NEXT ? ['y', 'out'] : ['y'],
  );
  const what = `${tokens} x ${columns}`;
  const sum = rmsNorm(x, weight, rows).map((value, i) => (value + (y[i] as number)) * scale);
  const inside = (word: number) => word < tokens * columns;
  expectClose(new Float32Array(done['y'] as ArrayBuffer).subarray(0, tokens * columns), sum, tolerance, what);
  expectUntouched(done['y'] as ArrayBuffer, y, inside, what);
  if (!variant.NEXT) return;
  const normed = rmsNorm(sum, nextWeight, rows);
  const got = new Float32Array(done['out'] as ArrayBuffer).subarray(0, tokens * columns);
  expectClose(got, normed, tolerance, `${what}, the next norm`);
  expectUntouched(done['out'] as ArrayBuffer, out, inside, what);
}

describe('norm_add equals the oracle', () => {
  for (const variant of normAdd.variants) {
    it(variantName(variant), async () => {
      await runRows(variant, { tokens: 1, columns: 1 }, 1);
      await runRows(variant, { tokens: 1, columns: 32 }, 2);
      await runRows(variant, { tokens: 57, columns: 1001 }, 3);
      await runRows(variant, { tokens: 2, columns: 4096 }, 4);
      await runRows(variant, { tokens: 3, columns: 96, scale: 0.37 }, 8);
      // Only eps keeps these from a division by zero.
      await runRows(variant, { tokens: 3, columns: 64, size: 0 }, 5);
      await runRows(variant, { tokens: 3, columns: 64, size: 1e-3, eps: 1e-2 }, 6);
      // Squares that barely fit into f32.
      await runRows(variant, { tokens: 3, columns: 64, size: 1e15 }, 7);
    });
  }
});
