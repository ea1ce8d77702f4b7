import type { ByteSource } from '../platform.ts';
import { ModelFileError } from './model-file.ts';

/**
 * Bytes fetched at a time: few at first, because most headers are small, then more, because the largest are 20 MB and
 * each fetch may be a request to a server.
 */
const firstChunkBytes = 1 << 20;
const mostChunkBytes = 4 << 20;
/** Made ASCII at a time. */
const asciiBytes = 1 << 16;
/** No header is larger (the largest vocabularies take 30 MB); a corrupt length must not make us allocate more. */
const headerLimitBytes = 256 << 20;

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** A count or extent for a message; `HeaderReader.length` gives Infinity for what no file can have. */
export const shown = (count: number): string => (Number.isFinite(count) ? String(count) : '2^53 or more');

/**
 * Reads a header from front to back through one window. `ensure` waits for bytes; the getters are synchronous
 * and take what it brought, so that a vocabulary of 250,000 strings costs a wait a chunk, not a wait a string.
 * Numbers are little-endian.
 */
export class HeaderReader {
  readonly #source: ByteSource;
  #window = new Uint8Array(0);
  #view = new DataView(this.#window.buffer);
  /** Next byte to take, and the end of what is valid, both in the window. */
  #at = 0;
  #end = 0;
  #chunkBytes = firstChunkBytes;
  /**
   * A stretch of the window with every byte beyond ASCII as '?', and where it begins there: to cut a string out of it
   * costs far less than to decode that string.
   */
  #ascii = '';
  #asciiStart = 0;
  /** Where the window begins in the file. */
  #start = 0;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  /** Where the next byte lies in the file. */
  get position(): number {
    return this.#start + this.#at;
  }

  get buffered(): number {
    return this.#end - this.#at;
  }

  fail(code: string, message: string): ModelFileError {
    return new ModelFileError(code, `${this.#source.name}: ${message}`);
  }

  /** Waits until `length` bytes can be taken. Throws when the file ends before. `what` names them for the message. */
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

  /** Refuses a length that the rest of the file cannot hold, before anything is allocated for it. */
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
        `the file ends at byte ${size}, inside ${needs}; it is cut off or corrupt, download it again`,
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

  /** A u64 that counts or measures something; above 2^53 - 1 it becomes Infinity, which every bound refuses. */
  length(): number {
    const at = this.#take(8);
    const high = this.#view.getUint32(at + 4, true);
    return high >= 1 << 21 ? Number.POSITIVE_INFINITY : high * 2 ** 32 + this.#view.getUint32(at, true);
  }

  /** A u64 length and as many bytes of UTF-8. */
  async text(what: string): Promise<string> {
    if (this.buffered < 8) await this.ensure(8, what);
    const length = this.length();
    if (this.buffered < length) await this.ensure(length, what);
    return this.#text(length);
  }

  /** Takes one string if all of it is in the window; otherwise takes nothing. */
  bufferedText(): string | undefined {
    if (this.buffered < 8) return undefined;
    const length = this.length();
    if (this.buffered < length) {
      this.#at -= 8;
      return undefined;
    }
    return this.#text(length);
  }

  /** Copies the next bytes out, a chunk at a time. */
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
