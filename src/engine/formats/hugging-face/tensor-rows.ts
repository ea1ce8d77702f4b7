import { decodeFloats, type FloatType } from '../float-bytes.ts';
import { bytesOfRow, columnsOf } from '../rows.ts';
import type { LocatedTensor } from './weight-files.ts';

/** Rows of a tensor in the encoding it is presented in; the rows are checked to be there. */
export type ReadRows = (firstRow: number, rows: number, into?: Uint8Array) => Promise<Uint8Array>;

/** Rows as they lie in the file. */
export const storedRows = (tensor: LocatedTensor, type: FloatType): ReadRows => {
  const rowBytes = bytesOfRow({ type, shape: tensor.shape });
  return (firstRow, rows, into) =>
    tensor.source.read(tensor.offset + firstRow * rowBytes, rows * rowBytes, into);
};

/**
 * Rows of q or k with the pairs of a rotation side by side, whatever the rows are encoded in: row 2i + j of a head is
 * its row i + j * half.
 * @param read the matrix as it is stored
 * @param headRows rows of a head, an even number
 */
export const pairedRows =
  (read: ReadRows, { rowBytes, headRows }: { rowBytes: number; headRows: number }): ReadRows =>
  async (firstRow, rows, into) => {
    const out = into ? into.subarray(0, rows * rowBytes) : new Uint8Array(rows * rowBytes);
    if (rows === 0) return out;
    // A row's neighbours come from both halves of its head, so whole heads are read.
    const first = firstRow - (firstRow % headRows);
    const end = Math.ceil((firstRow + rows) / headRows) * headRows;
    const stored = await read(first, end - first);
    for (let row = 0; row < rows; row++) {
      const from = pairedFrom(firstRow + row, headRows) - first;
      out.set(stored.subarray(from * rowBytes, (from + 1) * rowBytes), row * rowBytes);
    }
    return out;
  };

/** Which row of q or k as it is stored comes at `row` where pairs lie side by side. */
export const pairedFrom = (row: number, headRows: number): number => {
  const within = row % headRows;
  return row - within + (within >> 1) + (within & 1) * (headRows / 2);
};

/** Rows as F32, every value changed. */
export const floatRows = (
  tensor: LocatedTensor,
  type: FloatType,
  change?: (value: number) => number,
): ReadRows => {
  const read = storedRows(tensor, type);
  const columns = columnsOf(tensor);
  return async (firstRow, rows, into) => {
    const values = new Float32Array(rows * columns);
    decodeFloats(type, await read(firstRow, rows), values);
    if (change) for (let i = 0; i < values.length; i++) values[i] = change(values[i]!);
    return give(values, into);
  };
};

/** A vector whose elements stand for the rows of a matrix that `pairedRows` reorders. */
export const pairedVector = (tensor: LocatedTensor, type: FloatType, heads: number): ReadRows => {
  const read = floatRows(tensor, type);
  const headRows = columnsOf(tensor) / heads;
  return async (firstRow, rows, into) => {
    const stored = new Float32Array((await read(firstRow, rows)).slice().buffer);
    return give(
      stored.map((_, row) => stored[pairedFrom(row, headRows)]!),
      into,
    );
  };
};

/** A vector that is in no file. */
export const constantRows =
  (values: Float32Array): ReadRows =>
  async (_firstRow, rows, into) =>
    give(values.subarray(0, rows * values.length), into);

const give = (values: Float32Array, into: Uint8Array | undefined): Uint8Array => {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (!into) return bytes.slice();
  into.set(bytes);
  return into.subarray(0, bytes.length);
};
