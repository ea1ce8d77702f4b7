/**
 * Regular expressions over character classes, in one byte a character.
 *
 * V8 keeps a way back for every character that a Unicode expression (`/\p{L}+/u`) has passed in a two-byte text, so
 * one very long word overflows its stack. Here a text is first written again with one Latin-1 character a code
 * point: ASCII as it is, others as 0x80 | the set of classes that they are in. A class is then a plain byte set,
 * loops need no memory, and the answers are the same.
 */

const members = {
  L: /\p{L}/u,
  N: /\p{N}/u,
  P: /\p{P}/u,
  S: /\p{S}/u,
  M: /\p{M}/u,
  /** Not JavaScript's `\s`, which leaves out U+0085 and has U+FEFF. */
  space: /\p{White_Space}/u,
  /** What may begin a word of gpt-4o's and tekken's vocabularies, and what may go on in it. */
  upper: /[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]/u,
  lower: /[\p{Ll}\p{Lm}\p{Lo}\p{M}]/u,
  /** Han, and nearly all of U+0800 to U+4E00 and Hangul: DeepSeek's first vocabularies. */
  deepseekCjk: /[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]/u,
  /** Han and kana: DeepSeek V3. */
  hanKana: /[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]/u,
  /** Cased letters, as DeepSeek LLM lists them (Unicode 13 and without some later blocks). */
  deepseekCased:
    /[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}]/u,
  deepseekMarks: /[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]/u,
  /** The marks of Bloom's expression beyond ASCII. */
  bloomMarks: /[\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c]/u,
} as const;

type ClassName = keyof typeof members;

const pageSize = 256;
const maxClasses = 7;

export class ClassPattern {
  readonly #tests: readonly RegExp[];
  readonly #expression: RegExp;
  /** By code point / 256; made when first met. */
  readonly #pages: (Uint8Array | undefined)[] = [];

  /**
   * @param source a regular expression in which `\p{name}`, always within brackets, is a class of this file and
   *   everything else is ASCII
   */
  constructor(source: string) {
    const names = [...new Set([...source.matchAll(/\\p\{(\w+)\}/g)].map((match) => match[1] as ClassName))];
    if (names.length > maxClasses) throw new RangeError(`at most ${maxClasses} classes a pattern: ${source}`);
    this.#tests = names.map((name) => members[name]);
    const bodies = new Map(names.map((name, bit) => [name, classBody(members[name], bit)]));
    this.#expression = new RegExp(
      source.replace(/\\p\{(\w+)\}/g, (_, name: ClassName) => bodies.get(name) as string),
      'g',
    );
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

  /**
   * Where a projected piece falls apart: each match and each gap between two is a piece of its own.
   * @param ends receives the piece ends, counted from `offset`
   */
  cut(piece: string, offset: number, ends: number[]): void {
    const expression = this.#expression;
    let last = 0;
    expression.lastIndex = 0;
    for (let match = expression.exec(piece); match; match = expression.exec(piece)) {
      if (match.index > last) ends.push(offset + match.index);
      last = expression.lastIndex;
      ends.push(offset + last);
    }
    if (last < piece.length) ends.push(offset + piece.length);
  }

  #byteOf(point: number): number {
    const page = Math.floor(point / pageSize);
    let bytes = this.#pages[page];
    if (!bytes) {
      bytes = new Uint8Array(pageSize);
      for (let i = 0; i < pageSize; i++) {
        const char = String.fromCodePoint(page * pageSize + i);
        let mask = 0x80;
        this.#tests.forEach((test, bit) => {
          if (test.test(char)) mask |= 1 << bit;
        });
        bytes[i] = mask;
      }
      this.#pages[page] = bytes;
    }
    return bytes[point % pageSize] as number;
  }
}

/** Bracket content that stands for a class: its ASCII members and every byte with its bit. */
function classBody(member: RegExp, bit: number): string {
  let body = '';
  for (let byte = 0; byte < 256; byte++) {
    const inside = byte < 0x80 ? member.test(String.fromCharCode(byte)) : (byte & (1 << bit)) !== 0;
    if (inside) body += `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return body;
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
