import type { Lengths } from '../ebnf/marks.ts';
import { readString, type StringPlace } from './string-reader.ts';

/** The concatenated bytes of all tokens, and the end offset of each. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
}

/** The state of a string that is being written: its bounds, the characters so far, and the position. */
export interface OpenString {
  readonly lengths: Lengths;
  readonly written: number;
  readonly place: StringPlace;
}

type Bits = Uint32Array;

/** Limit of cached token sets. The longest tokens of a vocabulary seldom have as many characters. */
const mostKept = 256;

/** Restricts masks so that a JSON string keeps its length bounds. */
export class TokenLengths {
  readonly #tokens: TokenBytes;
  /** For each token, starting between characters: the characters it adds and whether it closes the string. */
  #added: { characters: Uint16Array; closes: Uint8Array; most: number } | undefined;
  readonly #beyond = new Map<number, Bits>();
  readonly #closingWithin = new Map<number, Bits>();

  constructor(tokens: TokenBytes) {
    this.#tokens = tokens;
  }

  /** Whether the string keeps its bounds when the token is added. */
  fits({ lengths, written, place }: OpenString, id: number): boolean {
    const { characters, closed } = this.#read(id, place);
    const after = written + characters;
    return after <= lengths.most && !(closed && after < lengths.least);
  }

  /** @returns the state after a token; undefined when the token closes the string */
  after({ lengths, written, place }: OpenString, id: number): OpenString | undefined {
    const part = this.#read(id, place);
    return part.closed ? undefined : { lengths, written: written + part.characters, place: part.place };
  }

  /** Removes the tokens from a mask that would make the string too long or close it too early. */
  restrict(mask: Bits, open: OpenString): void {
    const { lengths, written, place } = open;
    const [room, missing] = [lengths.most - written, lengths.least - written];
    if (place !== 0) {
      this.#restrictWithin(mask, open);
      return;
    }
    const { most } = this.#all();
    if (room < most)
      clear(
        mask,
        this.#those(this.#beyond, room, (characters) => characters > room),
      );
    if (missing <= 0) return;
    // No token has more than `maxCharacters` characters, so a larger limit has the same set.
    const early = Math.min(missing, most + 1);
    clear(
      mask,
      this.#those(this.#closingWithin, early, (characters, closes) => closes && characters < early),
    );
  }

  /** Inside a character only few tokens can follow, so each is checked. */
  #restrictWithin(mask: Bits, open: OpenString): void {
    for (let word = 0; word < mask.length; word++) {
      for (let left = mask[word] as number; left !== 0; left &= left - 1) {
        const bit = 31 - Math.clz32(left & -left);
        if (!this.fits(open, word * 32 + bit)) mask[word] = (mask[word] as number) & ~(1 << bit);
      }
    }
  }

  #those(
    known: Map<number, Bits>,
    key: number,
    wanted: (characters: number, closes: boolean) => boolean,
  ): Bits {
    const found = known.get(key);
    if (found) return found;
    const { characters, closes } = this.#all();
    const bits = new Uint32Array(Math.ceil(characters.length / 32));
    for (let id = 0; id < characters.length; id++) {
      if (wanted(characters[id] as number, closes[id] === 1))
        bits[id >> 5] = (bits[id >> 5] as number) | (1 << (id & 31));
    }
    if (known.size >= mostKept) known.clear();
    known.set(key, bits);
    return bits;
  }

  #all() {
    if (this.#added) return this.#added;
    const count = this.#tokens.ends.length;
    const [characters, closes] = [new Uint16Array(count), new Uint8Array(count)];
    let most = 0;
    for (let id = 0; id < count; id++) {
      const part = this.#read(id, 0);
      most = Math.max(most, part.characters);
      characters[id] = part.characters;
      closes[id] = part.closed ? 1 : 0;
    }
    this.#added = { characters, closes, most };
    return this.#added;
  }

  #read(id: number, place: StringPlace) {
    const { bytes, ends } = this.#tokens;
    return readString(bytes, id === 0 ? 0 : (ends[id - 1] ?? bytes.length), ends[id] ?? bytes.length, place);
  }
}

function clear(mask: Bits, bits: Bits): void {
  const words = Math.min(mask.length, bits.length);
  for (let word = 0; word < words; word++) mask[word] = (mask[word] as number) & ~(bits[word] as number);
}
