import { type CodePoints, normalizeRanges, complement } from '../ebnf/code-points.ts';

const digits: CodePoints = [[0x30, 0x39]];
const wordCharacters: CodePoints = normalizeRanges([
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]);
const whitespace: CodePoints = normalizeRanges([
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
export const lineTerminators: CodePoints = normalizeRanges([
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
]);

/** Character classes by the letter after the backslash. */
export const classEscapes: Readonly<Record<string, CodePoints>> = {
  d: digits,
  D: complement(digits),
  w: wordCharacters,
  W: complement(wordCharacters),
  s: whitespace,
  S: complement(whitespace),
};
export const controlEscapes: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, '0': 0 };

const propertyCache = new Map<string, CodePoints>();

/** The characters of a Unicode property in this JavaScript runtime; undefined when it is unknown. */
export function findPropertySet(name: string): CodePoints | undefined {
  const cached = propertyCache.get(name);
  if (cached) return cached;
  let expression: RegExp;
  try {
    expression = new RegExp(`\\p{${name}}`, 'u');
  } catch {
    return undefined;
  }
  const ranges: [number, number][] = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    if (!expression.test(String.fromCodePoint(code))) continue;
    const previous = ranges.at(-1);
    if (previous?.[1] === code - 1) previous[1] = code;
    else ranges.push([code, code]);
  }
  const codePointSet = normalizeRanges(ranges);
  if (propertyCache.size < 50) propertyCache.set(name, codePointSet);
  return codePointSet;
}
