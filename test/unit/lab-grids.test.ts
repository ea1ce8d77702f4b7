import { describe, expect, it } from 'vitest';
import type { LabKernel } from '../../src/engine/index.ts';
import { gridFault } from '../../src/lab/live/grids.ts';
import { gridOf } from '../../src/lab/live/kernel.ts';
import { contractOf } from '../../src/lab/stubs.ts';

const kernel = (op: string, x: string, y = '1') =>
  ({ contract: contractOf(op), grid: gridOf({ x, y }, { WG: 64 }) }) as LabKernel;
const steps = { most: 65_535, stepTokens: 512 };

describe('dispatch rules at the sizes of the resident model', () => {
  it('those of stubs hold', () => {
    const dims = { rows: 151_936, columns: 896, blocks: 28, block_bytes: 34 };
    expect(gridFault(kernel('matmul', 'ceil(rows / WG)', 'tokens'), { dims }, steps)).toBeUndefined();
    expect(gridFault(kernel('rms_norm', 'tokens'), { dims: { columns: 896 } }, steps)).toBeUndefined();
  });

  it.each([
    ['a row a workgroup', 'matmul', 'rows', '1', 'its dispatch.x is 151936 for 1 tokens there'],
    [
      'too many only for a long prompt',
      'matmul',
      '1',
      '300 * tokens',
      'its dispatch.y is 65700 for 219 tokens',
    ],
    ['none at one size', 'matmul', '1', 'tokens % 256', 'its dispatch.y is 0 for 256 tokens'],
    ['a part of one', 'matmul', 'rows / 5', '1', 'its dispatch.x is 30387.2 for 1 tokens'],
    ['no number', 'matmul', 'rows * 0 / 0', '1', 'its dispatch.x is NaN for 1 tokens'],
  ])('%s', (_, op, x, y, message) => {
    expect(gridFault(kernel(op, x, y), { dims: { rows: 151_936 } }, steps)).toContain(message);
  });

  it('kernels for one token never see more', () => {
    expect(gridFault(kernel('matvec', '1', '300 * tokens'), { dims: { rows: 8 } }, steps)).toBeUndefined();
  });
});
