import type { RowReader } from './tensor-rows.ts';

/**
 * A reordering of heads. From index `first`, a checkpoint stores the `headsPerGroup` heads of a group together, group
 * after group; GGUF stores the first head of every group, then the second of every group, and so on. A head has
 * `headSize` rows or columns.
 */
export interface HeadOrder {
  readonly axis: 'rows' | 'columns';
  readonly first: number;
  readonly groups: number;
  readonly headsPerGroup: number;
  readonly headSize: number;
}

/** Total number of rows or columns, including those before the heads. */
export const reorderedExtent = ({ first, groups, headsPerGroup, headSize }: HeadOrder): number =>
  first + groups * headsPerGroup * headSize;

/** The checkpoint's index of the row or column that GGUF has at `index`. */
const sourceIndex = (index: number, { first, groups, headsPerGroup, headSize }: HeadOrder): number => {
  if (index < first) return index;
  const within = (index - first) % headSize;
  const head = (index - first - within) / headSize;
  const group = head % groups;
  return first + (group * headsPerGroup + (head - group) / groups) * headSize + within;
};

/** How many rows or columns from `index`, up to `end`, are also contiguous in the checkpoint. */
const contiguousRun = (index: number, end: number, { first, headSize }: HeadOrder): number => {
  const runEnd = index < first ? first : index + headSize - ((index - first) % headSize);
  return Math.min(runEnd, end) - index;
};

/** When a head has fewer bytes, all heads are read at once, because every read may be an HTTP request. */
const minRead = 1 << 16;

/**
 * Reads rows of a matrix whose heads are groups of rows.
 * @param read reads the stored matrix
 * @param rowBytes bytes per row as `read` returns it
 */
export const readReorderedRows =
  (read: RowReader, order: HeadOrder, rowBytes: number): RowReader =>
  async (firstRow, rows, into) => {
    const out = into ? into.subarray(0, rows * rowBytes) : new Uint8Array(rows * rowBytes);
    const end = firstRow + rows;
    const allRows =
      order.headSize * rowBytes < minRead && rows > 1 ? await read(0, reorderedExtent(order)) : undefined;
    let row = firstRow;
    while (row < end) {
      const run = contiguousRun(row, end, order);
      const from = sourceIndex(row, order);
      const part = allRows?.subarray(from * rowBytes, (from + run) * rowBytes) ?? (await read(from, run));
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
export const readReorderedColumns =
  (
    read: RowReader,
    order: HeadOrder,
    { columns, elementBytes }: { columns: number; elementBytes: number },
  ): RowReader =>
  async (firstRow, rows, into) => {
    const rowBytes = columns * elementBytes;
    const out = into ? into.subarray(0, rows * rowBytes) : new Uint8Array(rows * rowBytes);
    if (rows === 0) return out;
    const stored = await read(firstRow, rows);
    let column = 0;
    while (column < columns) {
      const run = contiguousRun(column, columns, order) * elementBytes;
      const from = sourceIndex(column, order) * elementBytes;
      for (let row = 0; row < rows; row++) {
        const start = row * rowBytes;
        out.set(stored.subarray(start + from, start + from + run), start + column * elementBytes);
      }
      column += run / elementBytes;
    }
    return out;
  };
