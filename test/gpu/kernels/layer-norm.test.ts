import { beforeAll, describe, it } from 'vitest';
import { layerNorm, layerNormOptions, type LayerNormVariant } from '../../../kernels/layer-norm.ts';
import { layerNorm as reference } from '../../../kernels/reference/index.ts';
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

const tolerance = { nmse: 1e-11, maxAbs: 5e-5 };

interface Rows {
  tokens: number;
  columns: number;
  size?: number;
  /** Added to every element: the mean, which must cancel out. */
  around?: number;
  eps?: number;
}

async function run(variant: LayerNormVariant, shape: Rows, seed: number): Promise<void> {
  const { tokens, columns, size = 1, around = 0, eps = 1e-12 } = shape;
  const next = random(seed);
  const affine = randomValues(2 * columns, next);
  const y = randomValues((tokens + 1) * columns, next, size).map((value) => value + around);
  const out = await harness.run(
    layerNorm,
    variant,
    { params: { columns, eps }, dims: { tokens }, buffers: { affine, y } },
    ['y'],
  );
  const expected = reference(
    y.subarray(0, tokens * columns),
    affine.subarray(0, columns),
    affine.subarray(columns),
    { rows: tokens, cols: columns, eps },
  );
  const got = new Float32Array(out['y'] as ArrayBuffer);
  const what = `${tokens} x ${columns}`;
  expectClose(got.subarray(0, tokens * columns), expected, tolerance, what);
  expectUntouched(out['y'] as ArrayBuffer, y, (word) => word < tokens * columns, what);
}

describe('layer_norm equals the oracle', () => {
  for (const variant of layerNorm.variants) {
    it(variantName(variant), async () => {
      await run(variant, { tokens: 1, columns: 2 }, 1);
      await run(variant, { tokens: 1, columns: 32 }, 2);
      await run(variant, { tokens: 57, columns: 1001 }, 3);
      await run(variant, { tokens: 2, columns: 4096 }, 4);
      // Only eps keeps these from a division by zero.
      await run(variant, { tokens: 3, columns: 64, size: 0, eps: 1e-5 }, 5);
      await run(variant, { tokens: 3, columns: 64, size: 1e-3, eps: 1e-2 }, 6);
      // A sum of squares minus the square of the sum would lose every digit.
      await run(variant, { tokens: 3, columns: 256, around: 64, size: 1 }, 7);
    });
  }
});

describe('the variant of this adapter', () => {
  it('is supported by it', async () => {
    await run(layerNormOptions(harness.gpu.caps)[0] as LayerNormVariant, { tokens: 5, columns: 384 }, 8);
  });
});
