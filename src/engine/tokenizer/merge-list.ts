import { type Pairs, PairTable } from './merge.ts';
import { isSpecial, tokenType, type Vocabulary } from './vocabulary.ts';

/**
 * Maps texts to symbols: token ids, and numbers beyond the vocabulary for intermediate texts that are not tokens. A
 * text never becomes a control or byte token, even if it equals the text of one.
 */
export class SymbolTable {
  readonly #vocabulary: Vocabulary;
  readonly #extra = new Map<string, number>();
  readonly #extraTexts: string[] = [];

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** The token id of a text; undefined when it is not a token. */
  token(text: string): number | undefined {
    const id = this.#vocabulary.ids.get(text);
    return id !== undefined && isText(this.#vocabulary.types[id] as number) ? id : undefined;
  }

  of(text: string): number {
    const known = this.token(text) ?? this.#extra.get(text);
    if (known !== undefined) return known;
    const symbol = this.#vocabulary.tokens.length + this.#extraTexts.length;
    this.#extra.set(text, symbol);
    this.#extraTexts.push(text);
    return symbol;
  }

  text(symbol: number): string {
    return (this.#vocabulary.tokens[symbol] ??
      this.#extraTexts[symbol - this.#vocabulary.tokens.length]) as string;
  }
}

/** Whether text may become tokens of this type. */
export function isText(type: number): boolean {
  return !isSpecial(type) && type !== tokenType.byte;
}

/**
 * The pairs of a merge list, looked up on first use. A list of half a million merges is therefore ready as soon as its
 * lines are hashed.
 */
export class ListedPairs implements Pairs {
  readonly #symbols: SymbolTable;
  readonly #lines: LineIndex;
  readonly #met: PairTable;

  /** @param merges lines `left right`, highest priority first */
  constructor(symbols: SymbolTable, merges: readonly string[]) {
    this.#symbols = symbols;
    this.#lines = new LineIndex(merges);
    this.#met = new PairTable(pairCapacity(merges.length));
  }

  rankOf(left: number, right: number): number {
    return this.#met.rank[this.#entry(left, right)] as number;
  }

  mergedOf(left: number, right: number): number {
    return this.#met.merged[this.#entry(left, right)] as number;
  }

  #entry(left: number, right: number): number {
    const found = this.#met.find(left, right);
    if (found >= 0) return found;
    if (this.#met.full) this.#met.clear();
    const first = this.#symbols.text(left);
    const second = this.#symbols.text(right);
    const rank = this.#lines.find(first, second);
    const merged = rank < 0 ? undefined : this.#symbols.token(first + second);
    return this.#met.add(left, right, merged === undefined ? -1 : rank, merged ?? 0);
  }
}

/** A hash index of merge lines by their two parts. A Map with as many keys takes five times as long to fill. */
class LineIndex {
  readonly #lines: readonly string[];
  /** Open addressing: line + 1, or 0 for a free slot. At most half full. */
  readonly #slots: Int32Array;

  constructor(lines: readonly string[]) {
    this.#lines = lines;
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(lines.length * 2 + 2)));
    const last = this.#slots.length - 1;
    for (let number = 0; number < lines.length; number++) {
      let slot = slotOf(hashed(0, lines[number] as string), last);
      while (this.#slots[slot] !== 0) slot = (slot + 1) & last;
      this.#slots[slot] = number + 1;
    }
  }

  /** The first line that is `left right`, or -1. */
  find(left: string, right: string): number {
    const last = this.#slots.length - 1;
    const length = left.length + 1 + right.length;
    let slot = slotOf(hashed(hashed(hashed(0, left), ' '), right), last);
    for (; this.#slots[slot] !== 0; slot = (slot + 1) & last) {
      const number = (this.#slots[slot] as number) - 1;
      const line = this.#lines[number] as string;
      if (line.length !== length || line.charAt(left.length) !== ' ') continue;
      if (line.startsWith(left) && line.endsWith(right)) return number;
    }
    return -1;
  }
}

function hashed(seed: number, text: string): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}

function slotOf(hash: number, last: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) & last;
}

/** Pairs that a table caches before it is cleared; at most about 24 MB. */
export const pairCapacity = (size: number) => Math.min(2 ** 20, size * 32);
