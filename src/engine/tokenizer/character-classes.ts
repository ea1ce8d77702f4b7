import { type Expression, parseExpression } from './expression.ts';

/** Characters that every expression can take at once. */
const blockLength = 2 ** 16;

/**
 * Regular expressions over texts of one byte a character.
 *
 * V8 keeps a way back for every character that a Unicode expression (`/\p{L}+/u`) has passed in a two-byte text, so
 * one very long word overflows its stack. Here a text is first written again with one Latin-1 character a code
 * point: ASCII as it is, any other as the number of its kind. Characters are of one kind when the same sets of the
 * expression have them. A set is then a plain list of bytes, loops need no memory, and the answers are the same.
 */
export class ClassPattern {
  readonly #expression: Expression;
  /** By the sets that have a kind's characters ("0110"): its byte. */
  readonly #kinds = new Map<string, number>();
  /** By code point / 256: the byte of each; made when first met. */
  readonly #pages: (Uint8Array | undefined)[] = [];
  /** Made again when a text brings a new kind. */
  #compiled: RegExp | undefined;

  constructor(source: string) {
    this.#expression = parseExpression(source);
  }

  /** The text with one character a code point, for `cut`. */
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

  /** Start and end of each match in a projected piece, from the left. */
  matches(piece: string): number[] {
    this.#compiled ??= this.#compile();
    try {
      return this.#run(this.#compiled, piece, 0, []);
    } catch (error) {
      // Loops within loops do need memory, and megabytes without a gap ask for more than there is.
      if (!(error instanceof RangeError) || piece.length <= blockLength) throw error;
      const spans: number[] = [];
      for (let at = 0; at < piece.length; at += blockLength) {
        this.#run(this.#compiled, piece.slice(at, at + blockLength), at, spans);
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
      for (let i = 0; i < 256; i++) bytes[i] = this.#kindOf(String.fromCodePoint(page * 256 + i));
      this.#pages[page] = bytes;
    }
    return bytes[point & 0xff] as number;
  }

  #kindOf(char: string): number {
    const key = this.#expression.sets.map((set) => (set.test(char) ? '1' : '0')).join('');
    let byte = this.#kinds.get(key);
    if (byte === undefined) {
      byte = 0x80 + this.#kinds.size;
      if (byte > 0xff) throw new RangeError(`too many kinds of characters in ${this.#expression.source}`);
      this.#kinds.set(key, byte);
      this.#compiled = undefined;
    }
    return byte;
  }

  #compile(): RegExp {
    const { parts, sets } = this.#expression;
    const bodies = sets.map((set, number) => {
      let body = '';
      const add = (byte: number) => (body += `\\x${byte.toString(16).padStart(2, '0')}`);
      for (let byte = 0; byte < 0x80; byte++) if (set.test(String.fromCharCode(byte))) add(byte);
      for (const [key, byte] of this.#kinds) if (key[number] === '1') add(byte);
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
  // TextDecoder's 'latin1' is Windows-1252, which would move 0x80 to 0x9f.
  const block = 8192;
  let text = '';
  for (let i = 0; i < bytes.length; i += block) {
    text += String.fromCharCode(...bytes.subarray(i, i + block));
  }
  return text;
}
