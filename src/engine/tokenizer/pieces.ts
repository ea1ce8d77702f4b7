import { tokenType, type Vocabulary } from './vocabulary.ts';

/** The character that SentencePiece writes for a space. */
export const spaceMark = '▁';
const spaceMarkUnit = spaceMark.charCodeAt(0);

/** Encodes characters that have no token: as the byte tokens `<0x00>` to `<0xFF>`, or as the unknown token. */
export class ByteFallback {
  readonly #ids: readonly (number | undefined)[];
  readonly #unknown: readonly number[];

  constructor(vocabulary: Vocabulary) {
    this.#ids = Array.from({ length: 256 }, (_, byte) =>
      vocabulary.ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`),
    );
    this.#unknown = vocabulary.unknownId === undefined ? [] : [vocabulary.unknownId];
  }

  encode(text: string): readonly number[] {
    const ids = Array.from(new TextEncoder().encode(text), (byte) => this.#ids[byte]);
    return ids.every((id) => id !== undefined) ? ids : this.#unknown;
  }
}

export function pieceBytes(vocabulary: Vocabulary, id: number): Uint8Array {
  const text = vocabulary.tokens[id] as string;
  if (vocabulary.types[id] === tokenType.byte) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(text)?.[1];
    if (byte) return Uint8Array.of(Number.parseInt(byte, 16));
  }
  return new TextEncoder().encode(text.replaceAll(spaceMark, ' '));
}

/**
 * Splits texts at boundaries that no token spans: before a `▁` that no token contains after the preceding character.
 */
export class TokenBoundarySplitter {
  /** Code units that some token has directly before a `▁`. Only after these may a token span the end of a word. */
  readonly #joiningUnits: ReadonlySet<number>;

  constructor(tokens: readonly string[]) {
    const units = new Set<number>();
    for (const token of tokens) {
      for (let at = token.indexOf(spaceMark, 1); at >= 0; at = token.indexOf(spaceMark, at + 1)) {
        const before = token.charCodeAt(at - 1);
        if (before !== spaceMarkUnit) units.add(before);
      }
    }
    this.#joiningUnits = units;
  }

  forEachWord(text: string, callback: (word: string) => void): void {
    let from = 0;
    while (from < text.length) {
      const end = this.#end(text, from);
      callback(text.slice(from, end));
      from = end;
    }
  }

  #end(text: string, from: number): number {
    for (let at = text.indexOf(spaceMark, from + 1); at >= 0; at = text.indexOf(spaceMark, at + 1)) {
      const before = text.charCodeAt(at - 1);
      if (before !== spaceMarkUnit && !this.#joiningUnits.has(before)) return at;
    }
    return text.length;
  }
}
