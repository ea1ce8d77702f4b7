import { decodeFloats, type FloatType } from '../float-bytes.ts';
import { bytesOfRow, columnsOf } from '../rows.ts';
import type { LocatedTensor } from './weight-files.ts';

/** Reads rows of a converted tensor in its converted type. The caller has checked the row range. */
export type RowReader = (firstRow: number, rows: number, into?: Uint8Array) => Promise<Uint8Array>;

/** Reads rows as stored in the file. */
export const readStoredRows = (tensor: LocatedTensor, type: FloatType): RowReader => {
  const rowBytes = bytesOfRow({ type, shape: tensor.shape });
  return (firstRow, rows, into) =>
    tensor.source.read(tensor.offset + firstRow * rowBytes, rows * rowBytes, into);
};

/**
 * Reads rows of a q or k matrix with the rotary pairs of each head interleaved: row 2i + j of a head is stored row
 * i + j * half. Works for any row encoding.
 * @param read reads the stored matrix
 * @param headRows rows per head, an even number
 */
export const readInterleavedRows =
  (read: RowReader, { rowBytes, headRows }: { rowBytes: number; headRows: number }): RowReader =>
  async (firstRow, rows, into) => {
    const out = into ? into.subarray(0, rows * rowBytes) : new Uint8Array(rows * rowBytes);
    if (rows === 0) return out;
    // Adjacent rows come from both halves of a head, so this reads whole heads.
    const first = firstRow - (firstRow % headRows);
    const end = Math.ceil((firstRow + rows) / headRows) * headRows;
    const stored = await read(first, end - first);
    for (let row = 0; row < rows; row++) {
      const from = interleavedSourceRow(firstRow + row, headRows) - first;
      out.set(stored.subarray(from * rowBytes, (from + 1) * rowBytes), row * rowBytes);
    }
    return out;
  };

/** The stored row of q or k that becomes `row` after interleaving. */
export const interleavedSourceRow = (row: number, headRows: number): number => {
  const within = row % headRows;
  return row - within + (within >> 1) + (within & 1) * (headRows / 2);
};

/** Reads rows as F32 and applies an optional function to every value. */
export const readFloatRows = (
  tensor: LocatedTensor,
  type: FloatType,
  transform?: (value: number) => number,
): RowReader => {
  const read = readStoredRows(tensor, type);
  const columns = columnsOf(tensor);
  return async (firstRow, rows, into) => {
    const values = new Float32Array(rows * columns);
    decodeFloats(type, await read(firstRow, rows), values);
    if (transform) for (let i = 0; i < values.length; i++) values[i] = transform(values[i]!);
    return copyBytes(values, into);
  };
};

/** Reads a vector whose elements belong to the rows of a matrix that `readInterleavedRows` reorders. */
export const readInterleavedVector = (tensor: LocatedTensor, type: FloatType, heads: number): RowReader => {
  const read = readFloatRows(tensor, type);
  const headRows = columnsOf(tensor) / heads;
  return async (firstRow, rows, into) => {
    const stored = new Float32Array((await read(firstRow, rows)).slice().buffer);
    return copyBytes(
      stored.map((_, row) => stored[interleavedSourceRow(row, headRows)]!),
      into,
    );
  };
};

/** Reads a vector that is held in memory. */
export const readConstantRows =
  (values: Float32Array): RowReader =>
  async (_firstRow, rows, into) =>
    copyBytes(values.subarray(0, rows * values.length), into);

const copyBytes = (values: Float32Array, into: Uint8Array | undefined): Uint8Array => {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (!into) return bytes.slice();
  into.set(bytes);
  return into.subarray(0, bytes.length);
};
