import { StringDecoder } from 'node:string_decoder';
import type { SseFrame } from './wire.ts';

/** Comments between frames are kept for the raw text up to this many characters. */
const maxCommentChars = 4096;

/** An event exceeds the size limit. */
export class OversizedEvent extends Error {}

/**
 * Parses a stream of server-sent events from its bytes. Lines end with LF, CRLF or CR; a leading byte order mark is
 * dropped. The `raw` texts of all frames, concatenated, are the text of the stream up to the last frame: comments and
 * events without data are part of the next frame.
 */
export class SseParser {
  readonly #decoder = new StringDecoder('utf8');
  readonly #maxChars: number;
  #hasBegun = false;
  /** The previous chunk ended with CR: a following LF belongs to it. */
  #isAfterCr = false;
  /** Raw text of the current event; never searched again. */
  #raw = '';
  /** Text of the current line; never searched again. */
  #line = '';
  #event = '';
  #data: string | undefined;
  /** Number of lines so far; shows that a stream is alive. */
  lineCount = 0;

  /** @param maxChars limit of one event */
  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** @throws OversizedEvent */
  push(bytes: Uint8Array): SseFrame[] {
    const frames: SseFrame[] = [];
    const text = this.#decoder.write(bytes);
    if (text !== '') this.#parse(text, frames);
    return frames;
  }

  /** Ends the stream. A last event without its empty line counts. */
  end(): SseFrame[] {
    const frames: SseFrame[] = [];
    const rest = this.#decoder.end();
    if (rest !== '') this.#parse(rest, frames);
    if (this.#line !== '') this.#parse('\n', frames);
    if (this.#data !== undefined) {
      // After a CR, the first LF completes the CRLF.
      frames.push(this.#takeFrame(this.#data, `${this.#raw}${this.#raw.endsWith('\r') ? '\n\n' : '\n'}`));
    }
    return frames;
  }

  #parse(whole: string, frames: SseFrame[]): void {
    let text = whole;
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    let rawFrom = 0;
    let lineFrom = 0;
    if (this.#isAfterCr && text !== '') {
      this.#isAfterCr = false;
      if (text.charCodeAt(0) === 10) lineFrom = 1;
    }
    let cr = text.indexOf('\r', lineFrom);
    if (cr === -1 && lineFrom === 0 && this.#raw === '')
      lineFrom = rawFrom = this.#parseDataEvents(text, frames);
    let lf = text.indexOf('\n', lineFrom);
    while (lf !== -1 || cr !== -1) {
      let end: number;
      let next: number;
      if (cr !== -1 && (lf === -1 || cr < lf)) {
        end = cr;
        next = lf === cr + 1 ? cr + 2 : cr + 1;
        if (next === text.length && next === cr + 1) this.#isAfterCr = true;
      } else {
        end = lf;
        next = lf + 1;
      }
      const part = text.slice(lineFrom, end);
      const line = this.#line === '' ? part : this.#line + part;
      this.#line = '';
      this.lineCount += 1;
      if (line !== '') this.#addField(line);
      else {
        const raw = this.#raw + text.slice(rawFrom, next);
        rawFrom = next;
        if (this.#data !== undefined) frames.push(this.#takeFrame(this.#data, raw));
        else {
          this.#event = '';
          this.#raw = raw.length > maxCommentChars ? '' : raw;
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
   * Fast path for events with a single `data` line, which nearly all are, at the beginning of a text without CR.
   * @returns the offset of the first other line
   */
  #parseDataEvents(text: string, frames: SseFrame[]): number {
    let from = 0;
    while (text.startsWith('data:', from)) {
      const end = text.indexOf('\n', from);
      if (end === -1 || text.charCodeAt(end + 1) !== 10) break;
      const data = text.slice(text.charCodeAt(from + 5) === 32 ? from + 6 : from + 5, end);
      frames.push({ event: undefined, data, raw: text.slice(from, end + 2) });
      this.lineCount += 2;
      from = end + 2;
    }
    return from;
  }

  #takeFrame(data: string, raw: string): SseFrame {
    const event = this.#event === '' ? undefined : this.#event;
    this.#event = '';
    this.#data = undefined;
    this.#raw = '';
    return { event, data, raw };
  }

  #addField(line: string): void {
    if (line.startsWith('data:')) {
      const value = fieldValue(line, 5);
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    } else if (line.startsWith('event:')) this.#event = fieldValue(line, 6);
    else if (line === 'data') this.#data = this.#data === undefined ? '' : `${this.#data}\n`;
    else if (line === 'event') this.#event = '';
  }
}

/** The value of a field, without one space after the colon. */
const fieldValue = (line: string, from: number): string =>
  line.slice(line.charCodeAt(from) === 32 ? from + 1 : from);
