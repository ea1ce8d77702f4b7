import type { CodePoints } from './code-points.ts';

/** An inclusive range of byte values. */
export type ByteRange = readonly [first: number, last: number];

const limits = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/**
 * The UTF-8 encodings of non-ASCII characters as sequences of byte ranges. Every combination is a character of the set.
 */
export function utf8Ranges(set: CodePoints): ByteRange[][] {
  const found: ByteRange[][] = [];
  for (const [first, last] of set) split(Math.max(first, 0x80), last, found);
  return found;
}

function split(first: number, last: number, into: ByteRange[][]): void {
  if (first > last) return;
  for (const limit of limits) {
    if (first <= limit && last > limit) {
      split(first, limit, into);
      split(limit + 1, last, into);
      return;
    }
  }
  const length = limits.findIndex((limit) => last <= limit) + 1;
  // If a byte does not take all its values, both ends must agree in all preceding bytes. Otherwise split the range.
  for (let rest = 1; rest < length; rest++) {
    const mask = (1 << (6 * rest)) - 1;
    if ((first & ~mask) === (last & ~mask)) continue;
    if ((first & mask) !== 0) {
      split(first, first | mask, into);
      split((first | mask) + 1, last, into);
      return;
    }
    if ((last & mask) !== mask) {
      split(first, (last & ~mask) - 1, into);
      split(last & ~mask, last, into);
      return;
    }
  }
  const [from, to] = [bytesOf(first, length), bytesOf(last, length)];
  into.push(from.map((byte, index) => [byte, to[index] as number]));
}

const leads = [0, 0, 0xc0, 0xe0, 0xf0];

function bytesOf(codePoint: number, length: number): number[] {
  const bytes: number[] = [];
  for (let index = length - 1; index > 0; index--)
    bytes.push(0x80 | ((codePoint >> (6 * (index - 1))) & 0x3f));
  return [(leads[length] as number) | (codePoint >> (6 * (length - 1))), ...bytes];
}
