import { describe, expect, it } from 'vitest';
import { assemble, type Variant, variantKey } from '../../kernels/assemble.ts';
import { kernels } from '../support/all-kernels.ts';

const sources = (files: Record<string, string>) => new Map(Object.entries(files));
const one = (text: string, variant: Variant = {}) => assemble(sources({ 'a.wgsl': text }), 'a.wgsl', variant);

describe('assemble', () => {
  it("keeps the author's line numbers: inactive lines and directives become empty ones", () => {
    const text = ['first', '//#if ON', 'on', '//#else', 'off', '//#endif', 'last'].join('\n');
    expect(one(text, { ON: true }).split('\n').slice(0, 7)).toEqual(['first', '', 'on', '', '', '', 'last']);
    expect(one(text, { ON: false }).split('\n').slice(0, 7)).toEqual([
      'first',
      '',
      '',
      '',
      'off',
      '',
      'last',
    ]);
  });

  it('nests conditions, and an inner branch is active only inside an active one', () => {
    const text = [
      '//#if A',
      'a',
      '  //#if B  ',
      'ab',
      '//#else',
      'a-only',
      '//#endif',
      '//#else',
      '//#if B',
      'b-only',
      '//#endif',
      '//#endif',
    ].join('\n');
    const lines = (A: boolean, B: boolean) => one(text, { A, B }).split('\n').filter(Boolean);
    expect(lines(true, true)).toEqual(['a', 'ab']);
    expect(lines(true, false)).toEqual(['a', 'a-only']);
    expect(lines(false, true)).toEqual(['b-only']);
    expect(lines(false, false)).toEqual([]);
  });

  it('appends what is included after the end, each file once, also what it includes itself', () => {
    const files = sources({
      'a.wgsl': 'one\n//#include "lib/x.wgsl"\n//#include "lib/y.wgsl"\nfour',
      'lib/x.wgsl': 'x\n//#include "lib/y.wgsl"',
      'lib/y.wgsl': 'y\n//#include "lib/x.wgsl"',
    });
    expect(assemble(files, 'a.wgsl', {}).split('\n')).toEqual(['one', '', '', 'four', 'x', '', 'y', '', '']);
  });

  it('includes nothing from an inactive branch, and expands the included text too', () => {
    const files = sources({
      'a.wgsl': '//#if ON\n//#include "on.wgsl"\n//#else\n//#include "off.wgsl"\n//#endif',
      'on.wgsl': '//#if ON\non\n//#else\noff\n//#endif',
    });
    expect(assemble(files, 'a.wgsl', { ON: true })).toContain('on');
    expect(assemble(files, 'a.wgsl', { ON: true })).not.toContain('off');
    expect(() => assemble(files, 'a.wgsl', { ON: false })).toThrow("no WGSL source 'off.wgsl'");
  });

  it('takes names of includes from the variant', () => {
    const files = sources({ 'a.wgsl': '//#include "lib/weight_$FORMAT.wgsl"', 'lib/weight_q8_0.wgsl': 'q8' });
    expect(assemble(files, 'a.wgsl', { FORMAT: 'q8_0' })).toContain('q8');
    expect(() => assemble(files, 'a.wgsl', { FORMAT: 'q9' })).toThrow(
      "no WGSL source 'lib/weight_q9.wgsl' (known: a.wgsl, lib/weight_q8_0.wgsl)",
    );
  });

  it('appends numbers as u32, and as f32 where the name ends in _F; booleans and strings are no constants', () => {
    const text = one('x', { WG: 64, SCALE_F: 2, HALF_F: 0.5, ON: true, FORMAT: 'f32' });
    expect(text.split('\n').slice(1)).toEqual([
      'const WG = 64u;',
      'const SCALE_F = f32(2);',
      'const HALF_F = f32(0.5);',
    ]);
    expect(() => one('x', { WG: 1.5 })).toThrow(
      'WG: expected an integer >= 0 (names of floats end in _F), got 1.5',
    );
    expect(() => one('x', { WG: -1 })).toThrow('WG: expected an integer >= 0');
  });

  it.each([
    ['//#if', "a.wgsl:1: '' is not a boolean of the variant (ON, N)"],
    ['x\n//#if N', "a.wgsl:2: 'N' is not a boolean"],
    ['//#if OFF', "'OFF' is not a boolean of the variant (ON, N)"],
    ['//#if ON\nx', 'a.wgsl: //#if without //#endif'],
    ['//#else', 'a.wgsl:1: //#else without //#if'],
    ['//#if ON\n//#else\n//#else\n//#endif', 'a.wgsl:3: //#else without //#if'],
    ['x\n\n//#endif', 'a.wgsl:3: //#endif without //#if'],
    ['//#include lib/x.wgsl', 'a.wgsl:1: expected //#include "path"'],
    ['//#elif ON', 'a.wgsl:1: unknown directive //#elif (known: if, else, endif, include, unroll)'],
    // Also where it stands in an inactive branch.
    ['//#if ON\n//#else\n//#whatever\n//#endif', 'a.wgsl:3: unknown directive //#whatever'],
  ])('names the place of a wrong directive: %j', (text, message) => {
    expect(() => one(text, { ON: true, N: 3 })).toThrow(message);
  });
});

describe('variantKey', () => {
  const flipped = (value: string | number | boolean) =>
    typeof value === 'boolean' ? !value : typeof value === 'number' ? value + 1 : `${value}x`;

  it('changes when any field of any variant of any kernel changes', () => {
    for (const { source, variants } of kernels) {
      for (const variant of variants) {
        const key = variantKey(source, variant);
        for (const [name, value] of Object.entries(variant)) {
          expect(variantKey(source, { ...variant, [name]: flipped(value) }), `${key}: ${name}`).not.toBe(key);
        }
        expect(variantKey(`${source}x`, variant)).not.toBe(key);
      }
    }
  });

  it('no two variants share one, and the same variant has one whatever the order of its fields', () => {
    const all = kernels.flatMap(({ source, variants }) =>
      variants.map((variant) => ({ source, variant, key: variantKey(source, variant) })),
    );
    expect(new Set(all.map(({ key }) => key)).size).toBe(all.length);
    for (const { source, variant, key } of all) {
      const turned = Object.fromEntries(Object.entries(variant).reverse());
      expect(variantKey(source, turned)).toBe(key);
    }
  });

  it('tells 1 from "1" and true', () => {
    const keys = [1, '1', true, 'true'].map((A) => variantKey('a', { A }));
    expect(new Set(keys).size).toBe(4);
  });
});
