import { beforeAll, describe, expect, it } from 'vitest';
import { gelu } from '../../../kernels/gelu.ts';
import { gelu as reference } from '../../../kernels/reference/index.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  random,
  randomValues,
} from '../../support/kernel-harness.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

async function run(y: Float32Array<ArrayBuffer>, shape: { tokens: number; columns: number; stride: number }) {
  const { tokens, columns, stride } = shape;
  const out = await harness.run(
    gelu,
    { WG: 64 },
    { params: { columns, stride }, dims: { tokens }, buffers: { y } },
    ['y'],
  );
  const inside = (word: number) => word < tokens * stride && word % stride < columns;
  const got = new Float32Array(out['y'] as ArrayBuffer);
  expectClose(
    got.filter((_, word) => inside(word)),
    reference(y.filter((_, word) => inside(word))),
    { nmse: 1e-12, maxAbs: 4e-6 },
    `${tokens} x ${columns}`,
  );
  expectUntouched(out['y'] as ArrayBuffer, y, inside, 'gelu');
}

describe('gelu', () => {
  it.each([
    { tokens: 1, columns: 1, stride: 1 },
    { tokens: 3, columns: 96, stride: 96 },
    { tokens: 57, columns: 1001, stride: 1024 },
  ])('equals the oracle: %o', async (shape) => {
    const y = randomValues((shape.tokens + 1) * shape.stride, random(shape.columns), 3);
    await run(y, shape);
  });

  it('is correct over its whole curve and beyond', async () => {
    const columns = 4096;
    const y = Float32Array.from({ length: columns }, (_, i) => (i - columns / 2) / 200);
    await run(y, { tokens: 1, columns, stride: columns });
    const far = Float32Array.from([0, -0, 1e-20, -1e-20, 30, -30, 1e10, -1e10]);
    const out = await harness.run(
      gelu,
      { WG: 64 },
      { params: { columns: 8, stride: 8 }, dims: { tokens: 1 }, buffers: { y: far } },
      ['y'],
    );
    expectClose(
      new Float32Array(out['y'] as ArrayBuffer),
      reference(far),
      { nmse: 1e-12, maxAbs: 1e-6 },
      'far',
    );
  });

  it('is not the tanh approximation', () => {
    const at = 2.2;
    const tanh = 0.5 * at * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (at + 0.044715 * at ** 3)));
    expect(Math.abs(reference(Float64Array.of(at))[0]! - tanh)).toBeGreaterThan(1e-4);
  });
});
