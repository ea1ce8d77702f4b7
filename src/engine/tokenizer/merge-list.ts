import { type MergePairs, PairTable } from './merge.ts';
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
  findToken(text: string): number | undefined {
    const id = this.#vocabulary.ids.get(text);
    return id !== undefined && isTextToken(this.#vocabulary.types[id] as number) ? id : undefined;
  }

  intern(text: string): number {
    const existing = this.findToken(text) ?? this.#extra.get(text);
    if (existing !== undefined) return existing;
    const symbol = this.#vocabulary.tokens.length + this.#extraTexts.length;
    this.#extra.set(text, symbol);
    this.#extraTexts.push(text);
    return symbol;
  }

  textOf(symbol: number): string {
    return (this.#vocabulary.tokens[symbol] ??
      this.#extraTexts[symbol - this.#vocabulary.tokens.length]) as string;
  }
}

/** Whether text may become tokens of this type. */
export function isTextToken(type: number): boolean {
  return !isSpecial(type) && type !== tokenType.byte;
}

/**
 * The pairs of a merge list, looked up on first use. A list of half a million merges is therefore ready as soon as its
 * lines are hashed.
 */
export class MergeListPairs implements MergePairs {
  readonly #symbols: SymbolTable;
  readonly #mergeLines: MergeLineIndex;
  readonly #cache: PairTable;

  /** @param merges lines `left right`, highest priority first */
  constructor(symbols: SymbolTable, merges: readonly string[]) {
    this.#symbols = symbols;
    this.#mergeLines = new MergeLineIndex(merges);
    this.#cache = new PairTable(maxCachedPairs(merges.length));
  }

  rankOf(left: number, right: number): number {
    return this.#cache.ranks[this.#entry(left, right)] as number;
  }

  mergedSymbolOf(left: number, right: number): number {
    return this.#cache.mergedSymbols[this.#entry(left, right)] as number;
  }

  #entry(left: number, right: number): number {
    const found = this.#cache.find(left, right);
    if (found >= 0) return found;
    if (this.#cache.isFull) this.#cache.clear();
    const first = this.#symbols.textOf(left);
    const second = this.#symbols.textOf(right);
    const rank = this.#mergeLines.find(first, second);
    const merged = rank < 0 ? undefined : this.#symbols.findToken(first + second);
    return this.#cache.add(left, right, merged === undefined ? -1 : rank, merged ?? 0);
  }
}

/** A hash index of merge lines by their two parts. A Map with as many keys takes five times as long to fill. */
class MergeLineIndex {
  readonly #mergeLines: readonly string[];
  /** Open addressing: line + 1, or 0 for a free slot. At most half full. */
  readonly #slots: Int32Array;

  constructor(mergeLines: readonly string[]) {
    this.#mergeLines = mergeLines;
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(mergeLines.length * 2 + 2)));
    const last = this.#slots.length - 1;
    for (let number = 0; number < mergeLines.length; number++) {
      let slot = slotOf(hashText(0, mergeLines[number] as string), last);
      while (this.#slots[slot] !== 0) slot = (slot + 1) & last;
      this.#slots[slot] = number + 1;
    }
  }

  /** The first line that is `left right`, or -1. */
  find(left: string, right: string): number {
    const last = this.#slots.length - 1;
    const length = left.length + 1 + right.length;
    let slot = slotOf(hashText(hashText(hashText(0, left), ' '), right), last);
    for (; this.#slots[slot] !== 0; slot = (slot + 1) & last) {
      const number = (this.#slots[slot] as number) - 1;
      const line = this.#mergeLines[number] as string;
      if (line.length !== length || line.charAt(left.length) !== ' ') continue;
      if (line.startsWith(left) && line.endsWith(right)) return number;
    }
    return -1;
  }
}

function hashText(seed: number, text: string): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}

function slotOf(hash: number, last: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) & last;
}

/** Pairs that a table caches before it is cleared; at most about 24 MB. */
export const maxCachedPairs = (size: number) => Math.min(2 ** 20, size * 32);
