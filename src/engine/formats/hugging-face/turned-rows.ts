import type { ReadRows } from './tensor-rows.ts';

/**
 * Heads in turns: from `first` on a checkpoint has `each` heads of a group side by side, group after group, and GGUF
 * one head of every group, then the next of every group. A head is `size` rows, or as many columns.
 */
export interface Turns {
  readonly along: 'rows' | 'columns';
  readonly first: number;
  readonly groups: number;
  readonly each: number;
  readonly size: number;
}

/** How many rows or columns there are of all heads, and before them. */
export const turnedExtent = ({ first, groups, each, size }: Turns): number => first + groups * each * size;

/** Where the checkpoint has what comes at `index`. */
const turnedFrom = (index: number, { first, groups, each, size }: Turns): number => {
  if (index < first) return index;
  const within = (index - first) % size;
  const head = (index - first - within) / size;
  const group = head % groups;
  return first + (group * each + (head - group) / groups) * size + within;
};

/** How many rows or columns from `index` on lie side by side in the checkpoint as well, `end` being the last one's end. */
const runFrom = (index: number, end: number, { first, size }: Turns): number => {
  const runEnd = index < first ? first : index + size - ((index - first) % size);
  return Math.min(runEnd, end) - index;
};

/** Heads of fewer bytes are read all at once: every read of its own may be a request to a server. */
const leastRead = 1 << 16;

/**
 * @param read the matrix as it is stored
 * @param rowBytes of one row as it is read
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
 * The same within every row; a vector is one row.
 * @param columns of a row
 * @param elementBytes of one of its elements as it is read
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
