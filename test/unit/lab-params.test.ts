import { describe, expect, it } from 'vitest';
import { packUniform, undeclaredParams } from '../../kernels/contracts.ts';
import { contractOf } from '../../src/lab/stubs.ts';
import { declaredParams, findParamsMismatch, selectSupportedCases } from '../../src/lab/params.ts';
import type { ParityCase } from '../../src/lab/types.ts';
import { reflect } from '../../src/lab/wgsl/reflect.ts';

const attention = contractOf('attention');
const module = (members: string) => `
struct Params { ${members} }
@group(0) @binding(6) var<uniform> given: Params;
@compute @workgroup_size(1) fn main() {}
`;
const before = 'heads: u32, kv_heads: u32, head_dim: u32, max_pages: u32, page: u32, scale: f32';
const params = { heads: 4, kv_heads: 2, head_dim: 8, max_pages: 1, page: 32, scale: 1 };
const caseOf = (name: string, window: number): ParityCase => ({
  name,
  dims: {},
  tensors: {},
  params: { ...params, window },
});

describe('members of params that were added later', () => {
  it('are counted in the struct at the binding, with any name', () => {
    expect(declaredParams(attention, reflect(module(before)))).toBe(6);
    expect(declaredParams(attention, reflect(module(`${before}, window: u32`)))).toBe(7);
    expect(declaredParams(attention, reflect('@compute @workgroup_size(1) fn main() {}'))).toBe(0);
  });

  it('matter only where they are not neutral', () => {
    expect(undeclaredParams(attention, 6, { ...params, window: 0 })).toEqual([]);
    expect(undeclaredParams(attention, 6, { ...params, window: 512 })).toEqual(['window']);
    expect(undeclaredParams(attention, 7, { ...params, window: 512 })).toEqual([]);
    // Members that existed from the start are the responsibility of the author.
    expect(undeclaredParams(attention, 0, { ...params, window: 0 })).toEqual([]);
    expect(undeclaredParams(contractOf('matmul'), 7, { scale: 0.5 })).toEqual(['scale']);
    expect(undeclaredParams(contractOf('gated_matvec'), 7, { activation: 1 })).toEqual(['activation']);
  });

  it('a kernel without them is checked on the cases that do not need them', () => {
    const cases = [caseOf('random all', 0), caseOf('random few', 7)];
    expect(selectSupportedCases(attention, 6, cases)).toEqual({ supported: [cases[0]], missing: [] });
    const live = [...cases, caseOf('live few', 7)];
    expect(selectSupportedCases(attention, 6, live)).toEqual({ supported: [cases[0]], missing: ['window'] });
    expect(selectSupportedCases(attention, 7, live)).toEqual({ supported: live, missing: [] });
  });

  it('and cannot be bound elsewhere; the error gives the reason', () => {
    const kernel = { contract: attention, params: 6 };
    expect(findParamsMismatch(kernel, caseOf('all', 0))).toBeUndefined();
    expect(findParamsMismatch(kernel, caseOf('few', 512))).toContain('params.window is 512');
  });

  it('are at the end, so that older structs read the same members', () => {
    for (const op of ['attention', 'matmul', 'gated_matmul', 'gated_activation']) {
      const members = contractOf(op).bindings.find(({ name }) => name === 'params')?.members ?? [];
      const firstLater = members.findIndex(([, , neutral]) => neutral !== undefined);
      expect(firstLater, op).toBeGreaterThan(0);
      expect(
        members.slice(firstLater).every(([, , neutral]) => neutral !== undefined),
        op,
      ).toBe(true);
    }
    const uniform = attention.bindings.find(({ name }) => name === 'params');
    if (!uniform) throw new Error('no params');
    const words = new Uint32Array(packUniform(uniform, { ...params, window: 9 }));
    expect([...words.subarray(0, 5), words[6]]).toEqual([4, 2, 8, 1, 32, 9]);
  });
});
