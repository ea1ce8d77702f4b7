import { beforeAll, describe, it } from 'vitest';
import { pool, type PoolMode, poolModes } from '../../../kernels/pool.ts';
import { pool as reference } from '../../../kernels/reference/index.ts';
import { sampleWords } from '../../../kernels/sample.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  randomValues,
} from '../../support/kernel-harness.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const modes = Object.keys(poolModes) as PoolMode[];

describe.each(modes)('pool: %s', (mode) => {
  it.each([
    { lengths: [1], columns: 1 },
    { lengths: [3, 1, 200, 7], columns: 96 },
    { lengths: [512, 33], columns: 1001 },
  ])('equals the oracle: $lengths of $columns', async ({ lengths, columns }) => {
    const tokens = lengths.reduce((sum, length) => sum + length, 0);
    const x = randomValues(tokens * columns, random(columns));
    const samples = new Uint32Array(lengths.length * sampleWords).fill(0x7fffffff);
    let row = -1;
    for (const [s, length] of lengths.entries()) {
      row += length;
      samples[s * sampleWords] = row;
      samples[s * sampleWords + 4] = length;
    }
    const y = poisoned((lengths.length + 1) * columns);
    const out = await harness.run(
      pool,
      { WG: 64 },
      {
        params: { columns, mode: poolModes[mode] },
        dims: { samples: lengths.length },
        buffers: { samples, x, y },
      },
      ['y'],
    );
    const written = lengths.length * columns;
    const got = new Float32Array(out['y'] as ArrayBuffer);
    const expected = reference(x, lengths, columns, mode);
    expectClose(got.subarray(0, written), expected, { nmse: 1e-12, maxAbs: 1e-5 }, mode);
    expectUntouched(out['y'] as ArrayBuffer, y, (word) => word < written, mode);
  });
});
