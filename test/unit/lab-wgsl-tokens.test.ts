import { describe, expect, it } from 'vitest';
import { findToken, splitRange, tokenize } from '../../src/lab/wgsl/tokens.ts';

const texts = (source: string) => tokenize(source).map(({ text }) => text);

/** Texts between `<` and `>` of template lists, in the order of the `<`. */
function templates(source: string): string[] {
  const tokens = tokenize(source);
  return tokens
    .filter(({ text, matchIndex: partner }) => text === '<' && partner >= 0)
    .map(({ offset, matchIndex: partner }) => source.slice(offset + 1, tokens[partner]?.offset));
}

describe('tokens', () => {
  it('names, numbers and the longest symbols', () => {
    expect(texts('a_1 += 0x1p-23f>>2u->é!==b--<<=1.5h')).toEqual([
      'a_1',
      '+=',
      '0x1p-23f',
      '>>',
      '2u',
      '->',
      'é',
      '!=',
      '=',
      'b',
      '--',
      '<<=',
      '1.5h',
    ]);
    expect(texts('.5 1. 1e+3 0xFFu 1.x')).toEqual(['.5', '1.', '1e+3', '0xFFu', '1.', 'x']);
  });

  it('skips comments, including nested block comments', () => {
    expect(texts('a // b /* c\nd /* e /* f */ // g */ h')).toEqual(['a', 'd', 'h']);
    expect(texts('a /* never closed')).toEqual(['a']);
  });

  it('counts lines by all line breaks of WGSL, columns in UTF-16', () => {
    const places = tokenize('/* 😀\r\né */ a\rb\nc\u2028d\u0085 e').map(
      ({ text, line, column, length }) => `${text} ${line}:${column}+${length}`,
    );
    expect(places).toEqual(['a 2:6+1', 'b 3:1+1', 'c 4:1+1', 'd 5:1+1', 'e 6:2+1']);
    expect(tokenize('/*😀*/x')[0]).toMatchObject({ offset: 6, column: 7 });
  });

  it('distinguishes template lists from comparisons and shifts', () => {
    expect(templates('var<storage, read_write> x: array<vec4<f32>, N>;')).toEqual([
      'storage, read_write',
      'vec4<f32>, N',
      'f32',
    ]);
    expect(templates('let y = array<vec2<u32>,2>();')).toEqual(['vec2<u32>,2', 'u32']);
    expect(templates('if (a < b && c > d) {}')).toEqual([]);
    expect(templates('if (i < n) { x = a > b; }')).toEqual([]);
    expect(templates('let z = f(a < b, c > d);')).toEqual([' b, c ']); // as specified by WGSL
    expect(templates('x = a << 2u; y = b >> 1u; z = a <= b; w = c >= d;')).toEqual([]);
    expect(templates('x = a[i < n] > b;')).toEqual([]);
    expect(templates('array<u32, (1 < 2)>')).toEqual(['u32, (1 < 2)']);
    expect(templates('let a = vec2<f32>(1.0)>=b;')).toEqual(['f32']);
    expect(templates('let a: array<f32,4>=b;')).toEqual(['f32,4']);
  });

  it('brackets refer to their counterpart', () => {
    const tokens = tokenize('f(a[1], {2})');
    for (const [index, { matchIndex: partner }] of tokens.entries()) {
      if (partner >= 0) expect(tokens[partner]?.matchIndex).toBe(index);
    }
    expect(
      tokens
        .filter(({ matchIndex: partner }) => partner >= 0)
        .map(({ text }) => text)
        .join(''),
    ).toBe('([]{})');
  });

  it('splits at separators outside of brackets, with an optional trailing separator', () => {
    const source = 'a, f(b, c), d<e, f>(g),';
    const tokens = tokenize(source);
    const parts = splitRange(tokens, { from: 0, to: tokens.length });
    expect(
      parts.map(({ from, to }) =>
        tokens
          .slice(from, to)
          .map(({ text }) => text)
          .join(''),
      ),
    ).toEqual(['a', 'f(b,c)', 'd<e,f>(g)']);
    expect(findToken(tokens, { from: 1, to: tokens.length }, 'g')).toBe(tokens.length);
    expect(findToken(tokens, { from: 0, to: tokens.length }, 'd')).toBe(9);
  });
});
