import { StringDecoder } from 'node:string_decoder';
import type { SseFrame } from './wire.ts';

/** Comments between frames are kept for the raw text as long as they are not many. */
const keptComments = 4096;

/** An event is larger than allowed. */
export class OversizedEvent extends Error {}

/**
 * Frames of a stream of server-sent events, from its bytes as they come. Line ends are LF, CRLF or CR; a byte order mark
 * at the beginning is left out. The `raw` of all frames, put together, is the text of the stream up to the last of them:
 * comments and events without data stand before the next frame.
 */
export class SseParser {
  readonly #decoder = new StringDecoder('utf8');
  readonly #maxChars: number;
  #begun = false;
  /** The chunk before ended in CR: an LF belongs to it. */
  #afterCr = false;
  /** Whole chunks of the raw text of the event in progress; never searched again. */
  #raw = '';
  /** The line in progress, likewise. */
  #line = '';
  #event = '';
  #data: string | undefined;
  /** Lines so far: what shows that a stream is alive. */
  lines = 0;

  /** @param maxChars of one event */
  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** @throws OversizedEvent */
  push(bytes: Uint8Array): SseFrame[] {
    const frames: SseFrame[] = [];
    const text = this.#decoder.write(bytes);
    if (text !== '') this.#read(text, frames);
    return frames;
  }

  /** The stream ended: what stands there without its empty line counts, too. */
  end(): SseFrame[] {
    const frames: SseFrame[] = [];
    const rest = this.#decoder.end();
    if (rest !== '') this.#read(rest, frames);
    if (this.#line !== '') this.#read('\n', frames);
    if (this.#data !== undefined) {
      // After a CR, one LF is but its second half.
      frames.push(this.#frame(this.#data, `${this.#raw}${this.#raw.endsWith('\r') ? '\n\n' : '\n'}`));
    }
    return frames;
  }

  #read(whole: string, frames: SseFrame[]): void {
    let text = whole;
    if (!this.#begun) {
      this.#begun = true;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    let rawFrom = 0;
    let lineFrom = 0;
    if (this.#afterCr && text !== '') {
      this.#afterCr = false;
      if (text.charCodeAt(0) === 10) lineFrom = 1;
    }
    let cr = text.indexOf('\r', lineFrom);
    if (cr === -1 && lineFrom === 0 && this.#raw === '') lineFrom = rawFrom = this.#readPlain(text, frames);
    let lf = text.indexOf('\n', lineFrom);
    while (lf !== -1 || cr !== -1) {
      let end: number;
      let next: number;
      if (cr !== -1 && (lf === -1 || cr < lf)) {
        end = cr;
        next = lf === cr + 1 ? cr + 2 : cr + 1;
        if (next === text.length && next === cr + 1) this.#afterCr = true;
      } else {
        end = lf;
        next = lf + 1;
      }
      const part = text.slice(lineFrom, end);
      const line = this.#line === '' ? part : this.#line + part;
      this.#line = '';
      this.lines += 1;
      if (line !== '') this.#field(line);
      else {
        const raw = this.#raw + text.slice(rawFrom, next);
        rawFrom = next;
        if (this.#data !== undefined) frames.push(this.#frame(this.#data, raw));
        else {
          this.#event = '';
          this.#raw = raw.length > keptComments ? '' : raw;
        }
      }
      lineFrom = next;
      if (lf !== -1 && lf < next) lf = text.indexOf('\n', next);
      if (cr !== -1 && cr < next) cr = text.indexOf('\r', next);
    }
    this.#line += text.slice(lineFrom);
    this.#raw += text.slice(rawFrom);
    if (this.#raw.length > this.#maxChars)
      throw new OversizedEvent(`an event of more than ${this.#maxChars} characters`);
  }

  /**
   * Events of one line of data each, which nearly all are, at the beginning of a text without CR.
   * @returns where others begin
   */
  #readPlain(text: string, frames: SseFrame[]): number {
    let from = 0;
    while (text.startsWith('data:', from)) {
      const end = text.indexOf('\n', from);
      if (end === -1 || text.charCodeAt(end + 1) !== 10) break;
      const data = text.slice(text.charCodeAt(from + 5) === 32 ? from + 6 : from + 5, end);
      frames.push({ event: undefined, data, raw: text.slice(from, end + 2) });
      this.lines += 2;
      from = end + 2;
    }
    return from;
  }

  #frame(data: string, raw: string): SseFrame {
    const event = this.#event === '' ? undefined : this.#event;
    this.#event = '';
    this.#data = undefined;
    this.#raw = '';
    return { event, data, raw };
  }

  #field(line: string): void {
    if (line.startsWith('data:')) {
      const value = valueOf(line, 5);
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    } else if (line.startsWith('event:')) this.#event = valueOf(line, 6);
    else if (line === 'data') this.#data = this.#data === undefined ? '' : `${this.#data}\n`;
    else if (line === 'event') this.#event = '';
  }
}

/** One space after the colon does not count. */
const valueOf = (line: string, from: number): string =>
  line.slice(line.charCodeAt(from) === 32 ? from + 1 : from);
