import { decodeFloats, type FloatType } from '../float-bytes.ts';
import { tensorTypes } from '../model-file.ts';
import type { RowReader } from './tensor-rows.ts';
import type { LocatedTensor } from './weight-files.ts';

/** Selects the rows of one matrix among the stored rows of an expert: `first`, `first + step`, and so on. */
export interface ExpertRowSelection {
  /** Stored rows of one expert. */
  readonly storedRows: number;
  readonly first: number;
  readonly step: number;
  /** Rows of the expert's matrix. */
  readonly rows: number;
}

/** Splits a row range of a tensor [experts, rows, columns] into runs that each belong to one expert. */
function* splitByExpert(firstRow: number, rows: number, rowsPerExpert: number) {
  for (let row = firstRow; row < firstRow + rows; ) {
    const within = row % rowsPerExpert;
    const count = Math.min(rowsPerExpert - within, firstRow + rows - row);
    yield { expert: Math.floor(row / rowsPerExpert), within, count, at: row - firstRow };
    row += count;
  }
}

const outputBuffer = (bytes: number, into: Uint8Array | undefined): Uint8Array =>
  into ? into.subarray(0, bytes) : new Uint8Array(bytes);

/** Reads selected rows of a tensor [experts, rows, columns] as stored, `rowBytes` bytes each. */
const readSelectedRows =
  ({ source, offset }: LocatedTensor, selection: ExpertRowSelection, rowBytes: number): RowReader =>
  async (firstRow, rows, into) => {
    const out = outputBuffer(rows * rowBytes, into);
    for (const { expert, within, count, at } of splitByExpert(firstRow, rows, selection.rows)) {
      const first = expert * selection.storedRows + selection.first + within * selection.step;
      const span = ((count - 1) * selection.step + 1) * rowBytes;
      const stored = await source.read(offset + first * rowBytes, span);
      for (let i = 0; i < count; i++) {
        const from = i * selection.step * rowBytes;
        out.set(stored.subarray(from, from + rowBytes), (at + i) * rowBytes);
      }
    }
    return out;
  };

/** Reads float rows of a tensor [experts, rows, columns]. */
export const readStackedExperts = (
  tensor: LocatedTensor,
  { type, columns, selection }: { type: FloatType; columns: number; selection: ExpertRowSelection },
): RowReader => readSelectedRows(tensor, selection, columns * tensorTypes[type].blockBytes);

/** Reads rows when every expert has its own matrix; `experts` is in expert order. */
export const readSeparateExperts = (
  experts: readonly LocatedTensor[],
  { rows: rowsPerExpert, rowBytes }: { rows: number; rowBytes: number },
): RowReader => {
  return async (firstRow, rows, into) => {
    const out = outputBuffer(rows * rowBytes, into);
    for (const { expert, within, count, at } of splitByExpert(firstRow, rows, rowsPerExpert)) {
      const { source, offset } = experts[expert]!;
      const bytes = count * rowBytes;
      await source.read(
        offset + within * rowBytes,
        bytes,
        out.subarray(at * rowBytes, at * rowBytes + bytes),
      );
    }
    return out;
  };
};

/**
 * Caches the bytes of the expert that was read last. In transposed storage a few rows need bytes from the whole expert.
 */
export class LastExpertCache {
  #tensor: LocatedTensor | undefined;
  #expert = -1;
  #bytes: Promise<Uint8Array> | undefined;

  /** @param size bytes of one expert */
  read(tensor: LocatedTensor, expert: number, size: number): Promise<Uint8Array> {
    if (this.#bytes && this.#tensor === tensor && this.#expert === expert) return this.#bytes;
    const bytes = tensor.source.read(tensor.offset + expert * size, size);
    this.#tensor = tensor;
    this.#expert = expert;
    this.#bytes = bytes;
    // Do not cache a failure: a retry may succeed.
    bytes.catch(() => {
      if (this.#bytes === bytes) this.#bytes = undefined;
    });
    return bytes;
  }
}

/** Reads float rows of a tensor [experts, columns, rows]. */
export const readTransposedExperts =
  (
    tensor: LocatedTensor,
    { type, columns, selection }: { type: FloatType; columns: number; selection: ExpertRowSelection },
    cache: LastExpertCache,
  ): RowReader =>
  async (firstRow, rows, into) => {
    const { blockBytes: size } = tensorTypes[type];
    const out = outputBuffer(rows * columns * size, into);
    for (const { expert, within, count, at } of splitByExpert(firstRow, rows, selection.rows)) {
      const stored = await cache.read(tensor, expert, columns * selection.storedRows * size);
      for (let column = 0; column < columns; column++) {
        let from = (column * selection.storedRows + selection.first + within * selection.step) * size;
        let to = (at * columns + column) * size;
        for (let i = 0; i < count; i++, from += selection.step * size, to += columns * size) {
          for (let byte = 0; byte < size; byte++) out[to + byte] = stored[from + byte]!;
        }
      }
    }
    return out;
  };

const quantBytesPerBlock = 16;

/**
 * Reads rows of blocks [experts, rows, blocks per row, 16] and their exponents [experts, rows, blocks per row] as
 * GGUF's MXFP4: the exponent, then 16 bytes whose low nibbles are the first 16 values. In the checkpoint, byte i holds
 * the values 2i and 2i + 1.
 */
export const readPackedExperts = (
  { blocks, scales }: { blocks: LocatedTensor; scales: LocatedTensor },
  selection: ExpertRowSelection,
  blocksPerRow: number,
): RowReader => {
  const readBlocks = readSelectedRows(blocks, selection, blocksPerRow * quantBytesPerBlock);
  const readScales = readSelectedRows(scales, selection, blocksPerRow);
  const { blockBytes } = tensorTypes.MXFP4;
  return async (firstRow, rows, into) => {
    const [pairs, exponents] = [await readBlocks(firstRow, rows), await readScales(firstRow, rows)];
    const out = outputBuffer(rows * blocksPerRow * blockBytes, into);
    for (let block = 0; block < rows * blocksPerRow; block++) {
      const from = block * quantBytesPerBlock;
      const to = block * blockBytes;
      out[to] = exponents[block]!;
      for (let i = 0; i < quantBytesPerBlock / 2; i++) {
        const [first, second] = [pairs[from + i]!, pairs[from + quantBytesPerBlock / 2 + i]!];
        out[to + 1 + 2 * i] = (first & 15) | ((second & 15) << 4);
        out[to + 2 + 2 * i] = (first >> 4) | (second & 0xf0);
      }
    }
    return out;
  };
};

/** Reads biases [experts, rows] as F32. One row holds the bias of a whole expert. */
export const readExpertBiases =
  ({ source, offset }: LocatedTensor, type: FloatType, selection: ExpertRowSelection): RowReader =>
  async (firstRow, rows, into) => {
    const rowBytes = selection.storedRows * tensorTypes[type].blockBytes;
    const stored = new Float32Array(rows * selection.storedRows);
    decodeFloats(type, await source.read(offset + firstRow * rowBytes, rows * rowBytes), stored);
    const values = new Float32Array(rows * selection.rows);
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < selection.rows; i++) {
        values[row * selection.rows + i] =
          stored[row * selection.storedRows + selection.first + i * selection.step]!;
      }
    }
    const out = outputBuffer(values.byteLength, into);
    out.set(new Uint8Array(values.buffer));
    return out;
  };
