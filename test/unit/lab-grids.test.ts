import { describe, expect, it } from 'vitest';
import type { LabKernel } from '../../src/engine/index.ts';
import { findInvalidGrid } from '../../src/lab/live/grid-check.ts';
import { compileGrid } from '../../src/lab/live/lab-kernel.ts';
import { contractOf } from '../../src/lab/stubs.ts';

const kernel = (op: string, x: string, y = '1') =>
  ({ contract: contractOf(op), grid: compileGrid({ x, y }, { WG: 64 }) }) as LabKernel;
const steps = { maxWorkgroups: 65_535, stepTokens: 512 };

describe('dispatch rules at the sizes of the resident model', () => {
  it('the rules of the stubs are valid', () => {
    const dims = { rows: 151_936, columns: 896, blocks: 28, block_bytes: 34 };
    expect(findInvalidGrid(kernel('matmul', 'ceil(rows / WG)', 'tokens'), { dims }, steps)).toBeUndefined();
    expect(findInvalidGrid(kernel('rms_norm', 'tokens'), { dims: { columns: 896 } }, steps)).toBeUndefined();
  });

  it.each([
    [
      'one workgroup for each row',
      'matmul',
      'rows',
      '1',
      'dispatch.x for 1 tokens: expected a whole number from 1 to 65535, got 151936',
    ],
    [
      'too many for a large step',
      'matmul',
      '1',
      '300 * tokens',
      'dispatch.y for 219 tokens: expected a whole number from 1 to 65535, got 65700',
    ],
    [
      'no workgroups for one size',
      'matmul',
      '1',
      'tokens % 256',
      'dispatch.y for 256 tokens: expected a whole number from 1 to 65535, got 0',
    ],
    [
      'a fraction',
      'matmul',
      'rows / 5',
      '1',
      'dispatch.x for 1 tokens: expected a whole number from 1 to 65535, got 30387.2',
    ],
    ['not a number', 'matmul', 'rows * 0 / 0', '1', 'from 1 to 65535, got NaN'],
  ])('%s', (_, op, x, y, message) => {
    expect(findInvalidGrid(kernel(op, x, y), { dims: { rows: 151_936 } }, steps)).toContain(message);
  });

  it('kernels for single-token steps are checked for one token only', () => {
    expect(
      findInvalidGrid(kernel('matvec', '1', '300 * tokens'), { dims: { rows: 8 } }, steps),
    ).toBeUndefined();
  });
});
