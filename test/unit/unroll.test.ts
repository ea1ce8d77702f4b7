import { describe, expect, it } from 'vitest';
import { assemble, type Variant } from '../../kernels/assemble.ts';
import { constantsOf, unrollLoops } from '../../kernels/unroll.ts';

const unroll = (text: string, variant: Record<string, number> = {}) =>
  unrollLoops(text, constantsOf([text], variant));
const loop = (bound: string, body = 'f(i);') =>
  `//#unroll\nfor (var i = 0u; i < ${bound}; i++) {\n${body}\n}`;

describe('unroll', () => {
  it('repeats the body with a constant, on the line of the directive', () => {
    expect(unroll(`a\n  ${loop('2u').replace('\n', '\n  ')}\nz`).split('\n')).toEqual([
      'a',
      '{ const i = 0u; f(i); } { const i = 1u; f(i); }',
      '',
      '',
      '',
      'z',
    ]);
  });

  it('unrolls inner loops, too, and drops comments', () => {
    const inner = '//#unroll\nfor (var j = 0u; j < 2u; j++) {\n  g(i, j); // both\n}';
    const [line = ''] = unroll(loop('2u', inner)).split('\n');
    const copies = (i: number) =>
      `{ const i = ${i}u; { const j = 0u; g(i, j); } { const j = 1u; g(i, j); } }`;
    expect(line).toBe(`${copies(0)} ${copies(1)}`);
  });

  it.each([
    ['N', 3],
    ['N + 1u', 4],
    ['2u * (N - 1u) / 4u', 1],
    ['max(1u, 7u % N)', 1],
    ['min(N, HALF)', 2],
    ['0u', 0],
  ])('evaluates %s', (bound, count) => {
    const text = `const HALF = 4u / 2u;\n${loop(bound)}`;
    expect(unroll(text, { N: 3 }).split('f(i)')).toHaveLength(count + 1);
  });

  it('leaves loops without the directive', () => {
    const text = 'for (var i = 0u; i < 2u; i++) {\nf(i);\n}';
    expect(unroll(text)).toBe(text);
  });

  it.each([
    ['//#unroll\nwhile (true) {\n}', 'a shader:2: //#unroll needs'],
    [loop('params.count'), "a shader:2: the loop's bound 'params.count' is not constant"],
    [loop('1u / 0u'), 'is not constant'],
    ['//#unroll\nfor (var i = 0u; i < 1u; i++) {\nf(i);', 'a shader:2: the loop has no end'],
  ])('refuses %j', (text, message) => {
    expect(() => unroll(text)).toThrow(message);
  });

  it('is part of assembling: bounds are constants of the variant, and line numbers stay', () => {
    const source = ['//#if ON', ...loop('N * 2u').split('\n'), '//#endif', 'last'].join('\n');
    const one = (variant: Variant) =>
      assemble(new Map([['a.wgsl', source]]), 'a.wgsl', variant)
        .split('\n')
        .slice(0, 7);
    expect(one({ ON: true, N: 1 })).toEqual([
      '',
      '{ const i = 0u; f(i); } { const i = 1u; f(i); }',
      '',
      '',
      '',
      '',
      'last',
    ]);
    expect(one({ ON: false, N: 1 })).toEqual(['', '', '', '', '', '', 'last']);
  });
});
