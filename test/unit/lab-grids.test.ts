import { describe, expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import type { LabKernel } from '../../src/engine/index.ts';
import { evaluateGrid } from '../../src/lab/gate/dispatch.ts';
import { findIrregularDispatch } from '../../src/lab/gate/irregular-dispatch.ts';
import { findInvalidGrid } from '../../src/lab/live/grid-check.ts';
import { compileGrid } from '../../src/lab/live/lab-kernel.ts';
import { contractOf, renderStub } from '../../src/lab/stubs.ts';
import type { ParityCase } from '../../src/lab/types.ts';
import { nodePlatform } from '../../src/platform/node.ts';

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

describe('dispatch rules that know a number of tokens', () => {
  const one = { name: 'a case', dims: { tokens: 3, columns: 100 } } as unknown as ParityCase;
  const found = (op: string, x: string) =>
    findIrregularDispatch(contractOf(op), [one], ({ dims }) => evaluateGrid({ x }, dims, 65_535)).map(
      ({ code, severity, message }) => `${code} ${severity} ${message.split(',')[0]}`,
    );

  it.each([
    '12',
    'tokens',
    '12 * tokens',
    'ceil(tokens / 8)',
    '7 * ceil(tokens / 4)',
    'ceil(tokens / 3) * 5 + 2',
    'floor(tokens / 64) + 1',
    'ceil(tokens * columns / 64)',
    'min(tokens, 100)',
    'min(40, 7 * ceil(tokens / 5))',
    'ceil(tokens / 2000)',
  ])('honest: %s', (x) => {
    expect(found('rms_norm', x)).toEqual([]);
  });

  it.each([
    [
      'tokens - floor(tokens / 113) + floor((tokens - 1) / 113)',
      'irregular_dispatch warning dispatch.x is 111',
    ],
    ['max(1, ceil((tokens - 1) / 112))', 'irregular_dispatch warning dispatch.x is 2'],
    ['max(tokens - 300, min(tokens, 299))', 'irregular_dispatch warning dispatch.x is 299'],
    [
      'ceil(tokens / 8) - floor(tokens / 113) + floor((tokens - 1) / 113)',
      'irregular_dispatch warning dispatch.x is 15',
    ],
    ['100 - tokens % 2', 'irregular_dispatch warning dispatch.x is 99'],
  ])('%s', (x, expected) => {
    expect(found('rms_norm', x)).toEqual([expected]);
  });

  it('a kernel for one token has one size', () => {
    expect(found('matvec', 'max(1, tokens - 1)')).toEqual([]);
  });

  it('the rules of all stubs are regular', async () => {
    const wgsl = await nodePlatform().wgsl();
    for (const [op, contract] of contracts) {
      const { dispatch, overrides } = renderStub(wgsl, op, 'plain');
      const dims = Object.fromEntries(contract.dims.map(({ name }) => [name, 96]));
      const parityCase = { name: 'a case', dims } as unknown as ParityCase;
      const gridFor = (given: ParityCase) => evaluateGrid(dispatch, { ...overrides, ...given.dims }, 65_535);
      expect(findIrregularDispatch(contract, [parityCase], gridFor), op).toEqual([]);
    }
  });
});
