import { describe, expect, it } from 'vitest';
import {
  reorderedExtent,
  readReorderedRows,
  type HeadOrder,
} from '../../src/engine/formats/hugging-face/head-order.ts';

/** A matrix whose every row holds its own number, and how often it is read. */
const matrix = (rows: number, columns: number) => {
  const reads: [first: number, rows: number][] = [];
  const read = async (first: number, count: number) => {
    if (first + count > rows) throw new RangeError('beyond the end');
    reads.push([first, count]);
    const numbers = Array.from({ length: count }, (_, row) => new Float32Array(columns).fill(first + row));
    return new Uint8Array(Float32Array.from(numbers.flatMap((row) => [...row])).buffer);
  };
  return { read, reads };
};

/** Rows of two groups of three heads behind five rows that stay. */
const expected = (size: number): number[] => {
  const heads = [0, 3, 1, 4, 2, 5].flatMap((head) =>
    Array.from({ length: size }, (_, row) => 5 + head * size + row),
  );
  return [0, 1, 2, 3, 4, ...heads];
};

describe('heads in turns', () => {
  // Small heads, and heads that are read one by one.
  it.each([
    [1, 3],
    [4, 3],
    [4, 5000],
  ])('of %i rows of %i columns come in pieces of any size', async (size, columns) => {
    const turns: HeadOrder = { axis: 'rows', first: 5, groups: 2, headsPerGroup: 3, headSize: size };
    const rows = reorderedExtent(turns);
    expect(rows).toBe(5 + 6 * size);
    for (const piece of [1, 2, 3, 7, rows]) {
      const { read } = matrix(rows, columns);
      const turned = readReorderedRows(read, turns, columns * 4);
      const found: number[] = [];
      for (let row = 0; row < rows; row += piece) {
        const count = Math.min(piece, rows - row);
        const into = new Uint8Array(count * columns * 4 + 8);
        const bytes = await turned(row, count, into);
        expect(bytes.buffer).toBe(into.buffer);
        const values = new Float32Array(bytes.slice().buffer);
        for (let i = 0; i < count; i++) {
          found.push(values[i * columns]!);
          expect(values[i * columns]).toBe(values[(i + 1) * columns - 1]);
        }
      }
      expect(found).toEqual(expected(size));
    }
  });

  it('are read once where they are small, and never all of them where they are large', async () => {
    const turns: HeadOrder = { axis: 'rows', first: 0, groups: 16, headsPerGroup: 2, headSize: 1 };
    const small = matrix(32, 1024);
    await readReorderedRows(small.read, turns, 4096)(0, 32);
    expect(small.reads).toEqual([[0, 32]]);
    const large = matrix(32, 1 << 14);
    await readReorderedRows(large.read, turns, 1 << 16)(0, 2);
    expect(large.reads).toEqual([
      [0, 1],
      [2, 1],
    ]);
  });
});
