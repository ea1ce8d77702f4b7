import type { ByteSource } from '../platform.ts';
import { ModelFileError } from './model-file.ts';

/**
 * Size of the first read. Most headers are small; later reads grow, because the largest headers have 20 MB and each
 * read may be an HTTP request.
 */
const firstChunkBytes = 1 << 20;
const mostChunkBytes = 4 << 20;
/** Bytes that are decoded to ASCII at a time. */
const asciiBytes = 1 << 16;
/** No real header is larger (the largest vocabularies take 30 MB). Limits what a corrupt length can allocate. */
const headerLimitBytes = 256 << 20;

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Formats a count or extent for a message. `HeaderReader.u64Length` returns Infinity above 2^53 - 1. */
export const shown = (count: number): string => (Number.isFinite(count) ? String(count) : '2^53 or more');

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
  #at = 0;
  #end = 0;
  #chunkBytes = firstChunkBytes;
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
    return this.#start + this.#at;
  }

  get buffered(): number {
    return this.#end - this.#at;
  }

  fail(code: string, message: string): ModelFileError {
    return new ModelFileError(code, `${this.#source.name}: ${message}`);
  }

  /**
   * Waits until `length` bytes are buffered.
   * @param label names the bytes in error messages
   * @throws ModelFileError `truncated` when the file ends first, `corrupt` when the header would be too large
   */
  async ensure(length: number, what: string): Promise<void> {
    if (this.buffered >= length) return;
    this.expect(length, what);
    const wanted = Math.min(Math.max(length, this.#chunkBytes), this.#source.sizeBytes - this.position);
    this.#chunkBytes = Math.min(2 * this.#chunkBytes, mostChunkBytes);
    const kept = this.#window.subarray(this.#at, this.#end);
    const keptBytes = kept.length;
    const window = new Uint8Array(wanted);
    window.set(kept);
    const position = this.position;
    await this.#source.read(position + keptBytes, wanted - keptBytes, window.subarray(keptBytes));
    this.#window = window;
    this.#ascii = '';
    this.#asciiStart = 0;
    this.#view = new DataView(window.buffer);
    this.#start = position;
    this.#at = 0;
    this.#end = wanted;
  }

  /** Rejects a length that exceeds the rest of the file. Call it before you allocate memory for that length. */
  expect(length: number, what: string): void {
    const size = this.#source.sizeBytes;
    const end = this.position + length;
    const bytes = Number.isFinite(length) ? `${length} bytes` : 'more bytes than any file has';
    const needs = `${what} (${bytes} at offset ${this.position})`;
    if (length > headerLimitBytes || (end > headerLimitBytes && end <= size)) {
      throw this.fail(
        'corrupt',
        `${needs} would make the header larger than ${headerLimitBytes} bytes; the file is corrupt`,
      );
    }
    if (end > size) {
      throw this.fail(
        'truncated',
        `the file ends at byte ${size}, inside ${needs}; it is incomplete or corrupt, download it again`,
      );
    }
  }

  u8(): number {
    return this.#view.getUint8(this.#take(1));
  }
  i8(): number {
    return this.#view.getInt8(this.#take(1));
  }
  u16(): number {
    return this.#view.getUint16(this.#take(2), true);
  }
  i16(): number {
    return this.#view.getInt16(this.#take(2), true);
  }
  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }
  i32(): number {
    return this.#view.getInt32(this.#take(4), true);
  }
  f32(): number {
    return this.#view.getFloat32(this.#take(4), true);
  }
  f64(): number {
    return this.#view.getFloat64(this.#take(8), true);
  }
  u64(): bigint {
    return this.#view.getBigUint64(this.#take(8), true);
  }
  i64(): bigint {
    return this.#view.getBigInt64(this.#take(8), true);
  }

  /** Reads a u64 count or size. Values above 2^53 - 1 become Infinity, which fails every upper bound. */
  length(): number {
    const at = this.#take(8);
    const high = this.#view.getUint32(at + 4, true);
    return high >= 1 << 21 ? Number.POSITIVE_INFINITY : high * 2 ** 32 + this.#view.getUint32(at, true);
  }

  /** Reads a string: a u64 length, then that many bytes of UTF-8. */
  async text(what: string): Promise<string> {
    if (this.buffered < 8) await this.ensure(8, what);
    const length = this.length();
    if (this.buffered < length) await this.ensure(length, what);
    return this.#text(length);
  }

  /** Reads a string if all of it is buffered; otherwise returns undefined and consumes nothing. */
  bufferedText(): string | undefined {
    if (this.buffered < 8) return undefined;
    const length = this.length();
    if (this.buffered < length) {
      this.#at -= 8;
      return undefined;
    }
    return this.#text(length);
  }

  /** Copies the next bytes to `target`, a chunk at a time. */
  async copyTo(target: Uint8Array, what: string): Promise<void> {
    this.expect(target.length, what);
    let done = 0;
    while (done < target.length) {
      await this.ensure(1, what);
      const part = Math.min(this.buffered, target.length - done);
      const at = this.#take(part);
      target.set(this.#window.subarray(at, at + part), done);
      done += part;
    }
  }

  #take(length: number): number {
    const at = this.#at;
    if (at + length > this.#end) throw new RangeError('header read without ensure()');
    this.#at = at + length;
    return at;
  }

  #text(length: number): string {
    const at = this.#take(length);
    const end = at + length;
    for (let byte = at; byte < end; byte++) {
      if ((this.#window[byte] ?? 0) > 127) return decoder.decode(this.#window.subarray(at, end));
    }
    if (end > this.#asciiStart + this.#ascii.length) {
      this.#ascii = decoder.decode(asciiOf(this.#window.subarray(at, Math.max(end, at + asciiBytes))));
      this.#asciiStart = at;
    }
    return this.#ascii.substring(at - this.#asciiStart, end - this.#asciiStart);
  }
}

const asciiOf = (bytes: Uint8Array): Uint8Array => {
  const ascii = bytes.slice();
  for (let at = 0; at < ascii.length; at++) if ((ascii[at] ?? 0) > 127) ascii[at] = 0x3f;
  return ascii;
};
