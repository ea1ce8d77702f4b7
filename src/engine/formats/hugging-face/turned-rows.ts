import type { ReadRows } from './tensor-rows.ts';

/**
 * A reordering of heads. From index `first`, a checkpoint stores the `headsPerGroup` heads of a group together, group
 * after group; GGUF stores the first head of every group, then the second of every group, and so on. A head has
 * `headSize` rows or columns.
 */
export interface Turns {
  readonly along: 'rows' | 'columns';
  readonly first: number;
  readonly groups: number;
  readonly each: number;
  readonly size: number;
}

/** Total number of rows or columns, including those before the heads. */
export const turnedExtent = ({ first, groups, each, size }: Turns): number => first + groups * each * size;

/** The checkpoint's index of the row or column that GGUF has at `index`. */
const turnedFrom = (index: number, { first, groups, each, size }: Turns): number => {
  if (index < first) return index;
  const within = (index - first) % size;
  const head = (index - first - within) / size;
  const group = head % groups;
  return first + (group * each + (head - group) / groups) * size + within;
};

/** How many rows or columns from `index`, up to `end`, are also contiguous in the checkpoint. */
const runFrom = (index: number, end: number, { first, size }: Turns): number => {
  const runEnd = index < first ? first : index + size - ((index - first) % size);
  return Math.min(runEnd, end) - index;
};

/** When a head has fewer bytes, all heads are read at once, because every read may be an HTTP request. */
const leastRead = 1 << 16;

/**
 * Reads rows of a matrix whose heads are groups of rows.
 * @param read reads the stored matrix
 * @param rowBytes bytes per row as `read` returns it
 */
export const turnedRows =
  (read: ReadRows, turns: Turns, rowBytes: number): ReadRows =>
  async (firstRow, rows, into) => {
    const out = into ? into.subarray(0, rows * rowBytes) : new Uint8Array(rows * rowBytes);
    const end = firstRow + rows;
    const all =
      turns.size * rowBytes < leastRead && rows > 1 ? await read(0, turnedExtent(turns)) : undefined;
    let row = firstRow;
    while (row < end) {
      const run = runFrom(row, end, turns);
      const from = turnedFrom(row, turns);
      const part = all?.subarray(from * rowBytes, (from + run) * rowBytes) ?? (await read(from, run));
      out.set(part, (row - firstRow) * rowBytes);
      row += run;
    }
    return out;
  };

/**
 * Reads rows of a matrix whose heads are groups of columns; a vector is one row.
 * @param columns columns per row
 * @param elementBytes bytes per element as `read` returns it
 */
export const turnedColumns =
  (
    read: ReadRows,
    turns: Turns,
    { columns, elementBytes }: { columns: number; elementBytes: number },
  ): ReadRows =>
  async (firstRow, rows, into) => {
    const rowBytes = columns * elementBytes;
    const out = into ? into.subarray(0, rows * rowBytes) : new Uint8Array(rows * rowBytes);
    if (rows === 0) return out;
    const stored = await read(firstRow, rows);
    let column = 0;
    while (column < columns) {
      const run = runFrom(column, columns, turns) * elementBytes;
      const from = turnedFrom(column, turns) * elementBytes;
      for (let row = 0; row < rows; row++) {
        const start = row * rowBytes;
        out.set(stored.subarray(start + from, start + from + run), start + column * elementBytes);
      }
      column += run / elementBytes;
    }
    return out;
  };
