import { decodeFloats, type FloatType } from '../float-bytes.ts';
import { tensorTypes } from '../model-file.ts';
import type { ReadRows } from './tensor-rows.ts';
import type { LocatedTensor } from './weight-files.ts';

/** Selects the rows of one matrix among the stored rows of an expert: `first`, `first + step`, and so on. */
export interface Pick {
  /** Stored rows of one expert. */
  readonly of: number;
  readonly first: number;
  readonly step: number;
  /** Rows of the expert's matrix. */
  readonly rows: number;
}

/** Splits a row range of a tensor [experts, rows, columns] into runs that each belong to one expert. */
function* runsOf(firstRow: number, rows: number, ofExpert: number) {
  for (let row = firstRow; row < firstRow + rows; ) {
    const within = row % ofExpert;
    const count = Math.min(ofExpert - within, firstRow + rows - row);
    yield { expert: Math.floor(row / ofExpert), within, count, at: row - firstRow };
    row += count;
  }
}

const placeFor = (bytes: number, into: Uint8Array | undefined): Uint8Array =>
  into ? into.subarray(0, bytes) : new Uint8Array(bytes);

/** Reads selected rows of a tensor [experts, rows, columns] as stored, `rowBytes` bytes each. */
const pickedRows =
  ({ source, offset }: LocatedTensor, pick: Pick, rowBytes: number): ReadRows =>
  async (firstRow, rows, into) => {
    const out = placeFor(rows * rowBytes, into);
    for (const { expert, within, count, at } of runsOf(firstRow, rows, pick.rows)) {
      const first = expert * pick.of + pick.first + within * pick.step;
      const span = ((count - 1) * pick.step + 1) * rowBytes;
      const stored = await source.read(offset + first * rowBytes, span);
      for (let i = 0; i < count; i++) {
        const from = i * pick.step * rowBytes;
        out.set(stored.subarray(from, from + rowBytes), (at + i) * rowBytes);
      }
    }
    return out;
  };

/** Reads float rows of a tensor [experts, rows, columns]. */
export const stackedRows = (
  tensor: LocatedTensor,
  { type, columns, pick }: { type: FloatType; columns: number; pick: Pick },
): ReadRows => pickedRows(tensor, pick, columns * tensorTypes[type].blockBytes);

/** Reads rows when every expert has its own matrix; `experts` is in expert order. */
export const separateRows = (
  experts: readonly LocatedTensor[],
  { rows: ofExpert, rowBytes }: { rows: number; rowBytes: number },
): ReadRows => {
  return async (firstRow, rows, into) => {
    const out = placeFor(rows * rowBytes, into);
    for (const { expert, within, count, at } of runsOf(firstRow, rows, ofExpert)) {
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
export class LastExpert {
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
export const turnedRows =
  (
    tensor: LocatedTensor,
    { type, columns, pick }: { type: FloatType; columns: number; pick: Pick },
    last: LastExpert,
  ): ReadRows =>
  async (firstRow, rows, into) => {
    const { blockBytes: size } = tensorTypes[type];
    const out = placeFor(rows * columns * size, into);
    for (const { expert, within, count, at } of runsOf(firstRow, rows, pick.rows)) {
      const stored = await last.read(tensor, expert, columns * pick.of * size);
      for (let column = 0; column < columns; column++) {
        let from = (column * pick.of + pick.first + within * pick.step) * size;
        let to = (at * columns + column) * size;
        for (let i = 0; i < count; i++, from += pick.step * size, to += columns * size) {
          for (let byte = 0; byte < size; byte++) out[to + byte] = stored[from + byte]!;
        }
      }
    }
    return out;
  };

const halfBlock = 16;

/**
 * Reads rows of blocks [experts, rows, blocks per row, 16] and their exponents [experts, rows, blocks per row] as
 * GGUF's MXFP4: the exponent, then 16 bytes whose low nibbles are the first 16 values. In the checkpoint, byte i holds
 * the values 2i and 2i + 1.
 */
export const packedRows = (
  { blocks, scales }: { blocks: LocatedTensor; scales: LocatedTensor },
  pick: Pick,
  blocksOfRow: number,
): ReadRows => {
  const readBlocks = pickedRows(blocks, pick, blocksOfRow * halfBlock);
  const readScales = pickedRows(scales, pick, blocksOfRow);
  const { blockBytes } = tensorTypes.MXFP4;
  return async (firstRow, rows, into) => {
    const [pairs, exponents] = [await readBlocks(firstRow, rows), await readScales(firstRow, rows)];
    const out = placeFor(rows * blocksOfRow * blockBytes, into);
    for (let block = 0; block < rows * blocksOfRow; block++) {
      const from = block * halfBlock;
      const to = block * blockBytes;
      out[to] = exponents[block]!;
      for (let i = 0; i < halfBlock / 2; i++) {
        const [first, second] = [pairs[from + i]!, pairs[from + halfBlock / 2 + i]!];
        out[to + 1 + 2 * i] = (first & 15) | ((second & 15) << 4);
        out[to + 2 + 2 * i] = (first >> 4) | (second & 0xf0);
      }
    }
    return out;
  };
};

/** Reads biases [experts, rows] as F32. One row holds the bias of a whole expert. */
export const biasRows =
  ({ source, offset }: LocatedTensor, type: FloatType, pick: Pick): ReadRows =>
  async (firstRow, rows, into) => {
    const rowBytes = pick.of * tensorTypes[type].blockBytes;
    const stored = new Float32Array(rows * pick.of);
    decodeFloats(type, await source.read(offset + firstRow * rowBytes, rows * rowBytes), stored);
    const values = new Float32Array(rows * pick.rows);
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < pick.rows; i++) {
        values[row * pick.rows + i] = stored[row * pick.of + pick.first + i * pick.step]!;
      }
    }
    const out = placeFor(values.byteLength, into);
    out.set(new Uint8Array(values.buffer));
    return out;
  };
