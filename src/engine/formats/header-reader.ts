import type { ByteSource } from '../platform.ts';
import { ModelFileError } from './model-file.ts';

/**
 * Size of the first read. Most headers are small; later reads grow, because the largest headers have 20 MB and each
 * read may be an HTTP request.
 */
const initialChunkBytes = 1 << 20;
const maxChunkBytes = 4 << 20;
/** Bytes that are decoded to ASCII at a time. */
const asciiRunBytes = 1 << 16;
/** No real header is larger (the largest vocabularies take 30 MB). Limits what a corrupt length can allocate. */
const maxHeaderBytes = 256 << 20;

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Formats a count or extent for a message. `HeaderReader.u64Length` returns Infinity above 2^53 - 1. */
export const formatCount = (count: number): string =>
  Number.isFinite(count) ? String(count) : '2^53 or more';

/**
 * Reads a header sequentially through one buffer. `ensure` waits until bytes are buffered; the getters are synchronous
 * and consume buffered bytes. A vocabulary of 250,000 strings therefore awaits once a chunk, not once a string.
 * Numbers are little-endian.
 */
export class HeaderReader {
  readonly #source: ByteSource;
  #window = new Uint8Array(0);
  #view = new DataView(this.#window.buffer);
  /** Offset of the next byte, and the end of the valid bytes, both in the window. */
  #offset = 0;
  #end = 0;
  #chunkBytes = initialChunkBytes;
  /**
   * A decoded run of the window in which every non-ASCII byte is '?', and the offset of the run in the window. A
   * substring of it costs far less than decoding a string by itself.
   */
  #ascii = '';
  #asciiStart = 0;
  /** Offset of the window in the file. */
  #start = 0;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  /** Offset of the next byte in the file. */
  get position(): number {
    return this.#start + this.#offset;
  }

  get bufferedBytes(): number {
    return this.#end - this.#offset;
  }

  createError(code: string, message: string): ModelFileError {
    return new ModelFileError(code, `${this.#source.name}: ${message}`);
  }

  /**
   * Waits until `length` bytes are buffered.
   * @param label names the bytes in error messages
   * @throws ModelFileError `truncated` when the file ends first, `corrupt` when the header would be too large
   */
  async ensure(length: number, label: string): Promise<void> {
    if (this.bufferedBytes >= length) return;
    this.assertFits(length, label);
    const targetBytes = Math.min(Math.max(length, this.#chunkBytes), this.#source.sizeBytes - this.position);
    this.#chunkBytes = Math.min(2 * this.#chunkBytes, maxChunkBytes);
    const remaining = this.#window.subarray(this.#offset, this.#end);
    const remainingBytes = remaining.length;
    const window = new Uint8Array(targetBytes);
    window.set(remaining);
    const position = this.position;
    await this.#source.read(
      position + remainingBytes,
      targetBytes - remainingBytes,
      window.subarray(remainingBytes),
    );
    this.#window = window;
    this.#ascii = '';
    this.#asciiStart = 0;
    this.#view = new DataView(window.buffer);
    this.#start = position;
    this.#offset = 0;
    this.#end = targetBytes;
  }

  /** Rejects a length that exceeds the rest of the file. Call it before you allocate memory for that length. */
  assertFits(length: number, label: string): void {
    const size = this.#source.sizeBytes;
    const end = this.position + length;
    const bytes = Number.isFinite(length) ? `${length} bytes` : 'more bytes than any file has';
    const range = `${label} (${bytes} at offset ${this.position})`;
    if (length > maxHeaderBytes || (end > maxHeaderBytes && end <= size)) {
      throw this.createError(
        'corrupt',
        `${range} would make the header larger than ${maxHeaderBytes} bytes; the file is corrupt`,
      );
    }
    if (end > size) {
      throw this.createError(
        'truncated',
        `the file ends at byte ${size}, inside ${range}; it is incomplete or corrupt, download it again`,
      );
    }
  }

  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }
  i8(): number {
    return this.#view.getInt8(this.#advance(1));
  }
  u16(): number {
    return this.#view.getUint16(this.#advance(2), true);
  }
  i16(): number {
    return this.#view.getInt16(this.#advance(2), true);
  }
  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }
  i32(): number {
    return this.#view.getInt32(this.#advance(4), true);
  }
  f32(): number {
    return this.#view.getFloat32(this.#advance(4), true);
  }
  f64(): number {
    return this.#view.getFloat64(this.#advance(8), true);
  }
  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }
  i64(): bigint {
    return this.#view.getBigInt64(this.#advance(8), true);
  }

  /** Reads a u64 count or size. Values above 2^53 - 1 become Infinity, which fails every upper bound. */
  u64Length(): number {
    const offset = this.#advance(8);
    const high = this.#view.getUint32(offset + 4, true);
    return high >= 1 << 21 ? Number.POSITIVE_INFINITY : high * 2 ** 32 + this.#view.getUint32(offset, true);
  }

  /** Reads a string: a u64 length, then that many bytes of UTF-8. */
  async readString(label: string): Promise<string> {
    if (this.bufferedBytes < 8) await this.ensure(8, label);
    const length = this.u64Length();
    if (this.bufferedBytes < length) await this.ensure(length, label);
    return this.#readString(length);
  }

  /** Reads a string if all of it is buffered; otherwise returns undefined and consumes nothing. */
  readBufferedString(): string | undefined {
    if (this.bufferedBytes < 8) return undefined;
    const length = this.u64Length();
    if (this.bufferedBytes < length) {
      this.#offset -= 8;
      return undefined;
    }
    return this.#readString(length);
  }

  /** Copies the next bytes to `target`, a chunk at a time. */
  async copyTo(target: Uint8Array, label: string): Promise<void> {
    this.assertFits(target.length, label);
    let copiedBytes = 0;
    while (copiedBytes < target.length) {
      await this.ensure(1, label);
      const runBytes = Math.min(this.bufferedBytes, target.length - copiedBytes);
      const offset = this.#advance(runBytes);
      target.set(this.#window.subarray(offset, offset + runBytes), copiedBytes);
      copiedBytes += runBytes;
    }
  }

  #advance(length: number): number {
    const offset = this.#offset;
    if (offset + length > this.#end) throw new RangeError('header read without ensure()');
    this.#offset = offset + length;
    return offset;
  }

  #readString(length: number): string {
    const offset = this.#advance(length);
    const end = offset + length;
    for (let byte = offset; byte < end; byte++) {
      if ((this.#window[byte] ?? 0) > 127) return decoder.decode(this.#window.subarray(offset, end));
    }
    if (end > this.#asciiStart + this.#ascii.length) {
      this.#ascii = decoder.decode(
        replaceNonAscii(this.#window.subarray(offset, Math.max(end, offset + asciiRunBytes))),
      );
      this.#asciiStart = offset;
    }
    return this.#ascii.substring(offset - this.#asciiStart, end - this.#asciiStart);
  }
}

const replaceNonAscii = (bytes: Uint8Array): Uint8Array => {
  const ascii = bytes.slice();
  for (let offset = 0; offset < ascii.length; offset++) if ((ascii[offset] ?? 0) > 127) ascii[offset] = 0x3f;
  return ascii;
};
