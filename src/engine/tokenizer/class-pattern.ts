import { type ParsedExpression, parseExpression } from './expression-parser.ts';

/** Characters that every expression can match in one run without a stack overflow. */
const blockLength = 2 ** 16;

/**
 * Runs a regular expression on texts that have one byte per character.
 *
 * In a two-byte text, V8 stores a backtracking entry for every character that a Unicode expression (`/\p{L}+/u`)
 * passes, so one very long word overflows its stack. This class first maps the text to one Latin-1 character per code
 * point: ASCII is unchanged, any other character becomes the byte of its class. Two characters have the same class when
 * exactly the same sets of the expression contain them. A set is then a list of bytes, loops need no backtracking
 * memory, and the matches are the same.
 */
export class ClassPattern {
  readonly #expression: ParsedExpression;
  /** The byte of each class, by a bit string of the sets that contain the class ("0110"). */
  readonly #classBytes = new Map<string, number>();
  /** Class bytes in pages of 256 code points, created on first use. */
  readonly #pages: (Uint8Array | undefined)[] = [];
  /** Compiled again when a text has a new class. */
  #regex: RegExp | undefined;

  constructor(source: string) {
    this.#expression = parseExpression(source);
  }

  /** Maps the text to one character per code point, for `findMatches`. */
  project(text: string): string {
    if (isAscii(text)) return text;
    const bytes = new Uint8Array(text.length);
    let length = 0;
    for (let i = 0; i < text.length; i++) {
      const point = text.codePointAt(i) as number;
      if (point > 0xffff) i++;
      bytes[length++] = point < 0x80 ? point : this.#byteOf(point);
    }
    return latin1(bytes.subarray(0, length));
  }

  /** Start and end of each match in a projected piece, from left to right. */
  findMatches(piece: string): number[] {
    this.#regex ??= this.#compile();
    try {
      return this.#run(this.#regex, piece, 0, []);
    } catch (error) {
      // Nested loops do need backtracking memory, and megabytes without a gap exceed it.
      if (!(error instanceof RangeError) || piece.length <= blockLength) throw error;
      const spans: number[] = [];
      for (let at = 0; at < piece.length; at += blockLength) {
        this.#run(this.#regex, piece.slice(at, at + blockLength), at, spans);
      }
      return spans;
    }
  }

  #run(expression: RegExp, piece: string, offset: number, spans: number[]): number[] {
    expression.lastIndex = 0;
    for (let match = expression.exec(piece); match; match = expression.exec(piece)) {
      if (match[0] === '') expression.lastIndex++;
      else spans.push(offset + match.index, offset + expression.lastIndex);
    }
    return spans;
  }

  #byteOf(point: number): number {
    const page = point >> 8;
    let bytes = this.#pages[page];
    if (!bytes) {
      bytes = new Uint8Array(256);
      for (let i = 0; i < 256; i++) bytes[i] = this.#classByteOf(String.fromCodePoint(page * 256 + i));
      this.#pages[page] = bytes;
    }
    return bytes[point & 0xff] as number;
  }

  #classByteOf(char: string): number {
    const key = this.#expression.sets.map((set) => (set.test(char) ? '1' : '0')).join('');
    let byte = this.#classBytes.get(key);
    if (byte === undefined) {
      byte = 0x80 + this.#classBytes.size;
      if (byte > 0xff) throw new RangeError(`too many character classes in ${this.#expression.source}`);
      this.#classBytes.set(key, byte);
      this.#regex = undefined;
    }
    return byte;
  }

  #compile(): RegExp {
    const { parts, sets } = this.#expression;
    const bodies = sets.map((set, number) => {
      let body = '';
      const add = (byte: number) => (body += `\\x${byte.toString(16).padStart(2, '0')}`);
      for (let byte = 0; byte < 0x80; byte++) if (set.test(String.fromCharCode(byte))) add(byte);
      for (const [key, byte] of this.#classBytes) if (key[number] === '1') add(byte);
      return `[${body}]`;
    });
    const source = parts.map((part) => (typeof part === 'number' ? bodies[part] : part)).join('');
    return new RegExp(
      source.replaceAll(/\\u\{([0-9a-f]+)\}/g, (_, hex: string) => `\\x${hex.padStart(2, '0')}`),
      'g',
    );
  }
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= 0x80) return false;
  return true;
}

function latin1(bytes: Uint8Array): string {
  // TextDecoder's 'latin1' is Windows-1252, which maps 0x80 to 0x9f to other characters.
  const block = 8192;
  let text = '';
  for (let i = 0; i < bytes.length; i += block) {
    text += String.fromCharCode(...bytes.subarray(i, i + block));
  }
  return text;
}
