import { describe, expect, it } from 'vitest';
import { kernelDigest } from '../../src/lab/digest.ts';
import type { KernelRegistration } from '../../src/lab/types.ts';

const kernel: KernelRegistration = {
  name: 'mine',
  op: 'rms_norm',
  source: '@compute @workgroup_size(1) fn main() {}',
  dispatch: { x: 'tokens' },
  overrides: { WG: 64, ROWS: 2 },
  requires: ['subgroups', 'shader-f16'],
};

describe('the digest of a kernel', () => {
  it('does not change from version to version', () => {
    expect(kernelDigest(kernel)).toBe(
      'sha256:d8d7beb54806c1a8155e0456ecae6b31cf754d8dac6ec6586400a81f1aa45f5d',
    );
  });

  it('depends only on what the kernel computes: names, order and defaults do not matter', () => {
    const same: KernelRegistration = {
      requires: ['shader-f16', 'subgroups', 'subgroups'],
      overrides: { ROWS: 2, WG: 64 },
      dispatch: { z: '1', y: '1', x: 'tokens' },
      entry_point: 'main',
      source: kernel.source,
      op: 'rms_norm',
      name: 'yours',
      tunables: { WG: [32, 64] },
      dtypes: ['f32'],
    };
    expect(kernelDigest(same)).toBe(kernelDigest(kernel));
  });

  it.each<Partial<KernelRegistration>>([
    { op: 'head_norm' },
    { source: `${kernel.source} ` },
    { entry_point: 'other' },
    { dispatch: { x: 'tokens', y: '2' } },
    { overrides: { WG: 64, ROWS: 4 } },
    { overrides: {} },
    { requires: [] },
  ])('is another one with %o', (change) => {
    expect(kernelDigest({ ...kernel, ...change })).not.toBe(kernelDigest(kernel));
  });

  it('exists for any text', () => {
    expect(kernelDigest({ ...kernel, source: '\ud800' })).toMatch(/^sha256:[0-9a-f]{64}$/);
  });
});
