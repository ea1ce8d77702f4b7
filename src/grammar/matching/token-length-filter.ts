import type { LengthBounds } from '../ebnf/length-marks.ts';
import { scanString, type StringPosition } from './string-scanner.ts';

/** The concatenated bytes of all tokens, and the end offset of each. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
}

/** The state of a string that is being written: its bounds, the characters so far, and the position. */
export interface OpenString {
  readonly lengths: LengthBounds;
  readonly writtenCharacters: number;
  readonly position: StringPosition;
}

type TokenBitset = Uint32Array;

/** Limit of cached token sets. The longest tokens of a vocabulary seldom have as many characters. */
const maxKept = 256;

/** Restricts masks so that a JSON string keeps its length bounds. */
export class TokenLengthFilter {
  readonly #tokens: TokenBytes;
  /** For each token, starting between characters: the characters it adds and whether it closes the string. */
  #effects: { characters: Uint16Array; closesString: Uint8Array; maxCharacters: number } | undefined;
  readonly #tooLongTokens = new Map<number, TokenBitset>();
  readonly #earlyClosingTokens = new Map<number, TokenBitset>();

  constructor(tokens: TokenBytes) {
    this.#tokens = tokens;
  }

  /** Whether the string keeps its bounds when the token is added. */
  allows({ lengths, writtenCharacters, position }: OpenString, id: number): boolean {
    const { characters, isClosed: closed } = this.#read(id, position);
    const total = writtenCharacters + characters;
    return total <= lengths.maxLength && !(closed && total < lengths.minLength);
  }

  /** @returns the state after a token; undefined when the token closes the string */
  advance({ lengths, writtenCharacters, position }: OpenString, id: number): OpenString | undefined {
    const part = this.#read(id, position);
    return part.isClosed
      ? undefined
      : { lengths, writtenCharacters: writtenCharacters + part.characters, position: part.position };
  }

  /** Removes the tokens from a mask that would make the string too long or close it too early. */
  restrictMask(mask: TokenBitset, open: OpenString): void {
    const { lengths, writtenCharacters, position } = open;
    const [remaining, missingCharacters] = [
      lengths.maxLength - writtenCharacters,
      lengths.minLength - writtenCharacters,
    ];
    if (position !== 0) {
      this.#restrictWithin(mask, open);
      return;
    }
    const { maxCharacters } = this.#getEffects();
    if (remaining < maxCharacters)
      clearBits(
        mask,
        this.#getTokenSet(this.#tooLongTokens, remaining, (characters) => characters > remaining),
      );
    if (missingCharacters <= 0) return;
    // No token has more than `maxCharacters` characters, so a larger limit has the same set.
    const closeLimit = Math.min(missingCharacters, maxCharacters + 1);
    clearBits(
      mask,
      this.#getTokenSet(
        this.#earlyClosingTokens,
        closeLimit,
        (characters, closesString) => closesString && characters < closeLimit,
      ),
    );
  }

  /** Inside a character only few tokens can follow, so each is checked. */
  #restrictWithin(mask: TokenBitset, open: OpenString): void {
    for (let word = 0; word < mask.length; word++) {
      for (let bits = mask[word] as number; bits !== 0; bits &= bits - 1) {
        const bit = 31 - Math.clz32(bits & -bits);
        if (!this.allows(open, word * 32 + bit)) mask[word] = (mask[word] as number) & ~(1 << bit);
      }
    }
  }

  #getTokenSet(
    cache: Map<number, TokenBitset>,
    key: number,
    predicate: (characters: number, closesString: boolean) => boolean,
  ): TokenBitset {
    const cached = cache.get(key);
    if (cached) return cached;
    const { characters, closesString } = this.#getEffects();
    const bits = new Uint32Array(Math.ceil(characters.length / 32));
    for (let id = 0; id < characters.length; id++) {
      if (predicate(characters[id] as number, closesString[id] === 1))
        bits[id >> 5] = (bits[id >> 5] as number) | (1 << (id & 31));
    }
    if (cache.size >= maxKept) cache.clear();
    cache.set(key, bits);
    return bits;
  }

  #getEffects() {
    if (this.#effects) return this.#effects;
    const count = this.#tokens.ends.length;
    const [characters, closesString] = [new Uint16Array(count), new Uint8Array(count)];
    let maxCharacters = 0;
    for (let id = 0; id < count; id++) {
      const part = this.#read(id, 0);
      maxCharacters = Math.max(maxCharacters, part.characters);
      characters[id] = part.characters;
      closesString[id] = part.isClosed ? 1 : 0;
    }
    this.#effects = { characters, closesString, maxCharacters };
    return this.#effects;
  }

  #read(id: number, position: StringPosition) {
    const { bytes, ends } = this.#tokens;
    return scanString(
      bytes,
      id === 0 ? 0 : (ends[id - 1] ?? bytes.length),
      ends[id] ?? bytes.length,
      position,
    );
  }
}

function clearBits(mask: TokenBitset, bits: TokenBitset): void {
  const words = Math.min(mask.length, bits.length);
  for (let word = 0; word < words; word++) mask[word] = (mask[word] as number) & ~(bits[word] as number);
}
