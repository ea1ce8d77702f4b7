import type { CodePoints } from './code-points.ts';

/** An inclusive range of byte values. */
export type ByteRange = readonly [first: number, last: number];

const limits = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/**
 * The UTF-8 encodings of non-ASCII characters as sequences of byte ranges. Every combination is a character of the set.
 */
export function utf8Ranges(set: CodePoints): ByteRange[][] {
  const sequences: ByteRange[][] = [];
  for (const [first, last] of set) splitRange(Math.max(first, 0x80), last, sequences);
  return sequences;
}

function splitRange(first: number, last: number, output: ByteRange[][]): void {
  if (first > last) return;
  for (const limit of limits) {
    if (first <= limit && last > limit) {
      splitRange(first, limit, output);
      splitRange(limit + 1, last, output);
      return;
    }
  }
  const length = limits.findIndex((limit) => last <= limit) + 1;
  // If a byte does not take all its values, both ends must agree in all preceding bytes. Otherwise split the range.
  for (let trailingBytes = 1; trailingBytes < length; trailingBytes++) {
    const mask = (1 << (6 * trailingBytes)) - 1;
    if ((first & ~mask) === (last & ~mask)) continue;
    if ((first & mask) !== 0) {
      splitRange(first, first | mask, output);
      splitRange((first | mask) + 1, last, output);
      return;
    }
    if ((last & mask) !== mask) {
      splitRange(first, (last & ~mask) - 1, output);
      splitRange(last & ~mask, last, output);
      return;
    }
  }
  const [from, to] = [toUtf8Bytes(first, length), toUtf8Bytes(last, length)];
  output.push(from.map((byte, index) => [byte, to[index] as number]));
}

const leadBytes = [0, 0, 0xc0, 0xe0, 0xf0];

function toUtf8Bytes(codePoint: number, length: number): number[] {
  const bytes: number[] = [];
  for (let index = length - 1; index > 0; index--)
    bytes.push(0x80 | ((codePoint >> (6 * (index - 1))) & 0x3f));
  return [(leadBytes[length] as number) | (codePoint >> (6 * (length - 1))), ...bytes];
}
