import { Merger, type MergePairs, PairTable } from './merge.ts';
import { isTextToken, MergeListPairs, maxCachedPairs, SymbolTable } from './merge-list.ts';
import { ByteFallback, pieceBytes, TokenBoundarySplitter } from './pieces.ts';
import type { TextModel } from './text-model.ts';
import type { Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';
import type { PreTokenizer } from './pre-tokenizer.ts';

/**
 * SentencePiece's BPE (`tokenizer.ggml.model` 'llama'): merges characters when the result is a token, the best score
 * first or in the order of a merge list. A character without a token becomes `<0xNN>` byte tokens.
 */
export class SentencePieceModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #preTokenizer: PreTokenizer;
  readonly #symbols: SymbolTable;
  readonly #merger: Merger;
  readonly #cache = new WordCache();
  readonly #byteFallback: ByteFallback;
  /** Byte token ids by the symbol of a character without a token. */
  readonly #byteFallbackIds = new Map<number, readonly number[]>();
  readonly #boundarySplitter: TokenBoundarySplitter;
  #scratch = new Int32Array(256);

  /**
   * @param preTokenizer yields words with spaces written as `▁`
   * @param merges lines `left right`; undefined to merge by scores
   */
  constructor(vocabulary: Vocabulary, preTokenizer: PreTokenizer, merges: readonly string[] | undefined) {
    this.#vocabulary = vocabulary;
    this.#preTokenizer = preTokenizer;
    this.#symbols = new SymbolTable(vocabulary);
    this.#merger = new Merger(
      merges ? new MergeListPairs(this.#symbols, merges) : new ScoredPairs(vocabulary, this.#symbols),
    );
    this.#byteFallback = new ByteFallback(vocabulary);
    this.#boundarySplitter = new TokenBoundarySplitter(vocabulary.tokens);
  }

  encode(text: string, isPromptStart: boolean, ids: number[]): void {
    this.#preTokenizer.forEachWord(text, isPromptStart, (piece) =>
      this.#boundarySplitter.forEachWord(piece, (word) => this.#encodeCached(word, ids)),
    );
  }

  #encodeCached(word: string, ids: number[]): void {
    const cached = this.#cache.get(word);
    if (cached) {
      for (const id of cached) ids.push(id);
      return;
    }
    const from = ids.length;
    this.#encodeWord(word, ids);
    this.#cache.store(word, ids, from);
  }

  #encodeWord(word: string, ids: number[]): void {
    if (this.#scratch.length < word.length) this.#scratch = new Int32Array(word.length);
    const scratch = this.#scratch;
    let length = 0;
    for (const char of word) scratch[length++] = this.#symbols.intern(char);
    const count = this.#merger.merge(scratch, length);
    for (let i = 0; i < count; i++) {
      const symbol = scratch[i] as number;
      if (symbol < this.#vocabulary.tokens.length) ids.push(symbol);
      else for (const id of this.#encodeBytes(symbol)) ids.push(id);
    }
    // Release the memory of a huge word.
    if (this.#scratch.length > 2 ** 20) this.#scratch = new Int32Array(256);
  }

  #encodeBytes(symbol: number): readonly number[] {
    let ids = this.#byteFallbackIds.get(symbol);
    if (!ids) {
      ids = this.#byteFallback.encode(this.#symbols.textOf(symbol));
      this.#byteFallbackIds.set(symbol, ids);
    }
    return ids;
  }

  tokenBytes(id: number): Uint8Array {
    return pieceBytes(this.#vocabulary, id);
  }
}

/** Pairs that merge because the result is a token with a score, looked up on first use. */
class ScoredPairs implements MergePairs {
  readonly #symbols: SymbolTable;
  /** Rank by token: 0 for the best score; -1 for tokens that text never becomes. */
  readonly #ranks: Int32Array;
  readonly #table: PairTable;

  constructor(vocabulary: Vocabulary, symbols: SymbolTable) {
    this.#symbols = symbols;
    this.#ranks = ranksByScore(vocabulary);
    this.#table = new PairTable(maxCachedPairs(vocabulary.tokens.length));
  }

  rankOf(left: number, right: number): number {
    return this.#table.ranks[this.#entry(left, right)] as number;
  }

  mergedSymbolOf(left: number, right: number): number {
    return this.#table.mergedSymbols[this.#entry(left, right)] as number;
  }

  #entry(left: number, right: number): number {
    const found = this.#table.find(left, right);
    if (found >= 0) return found;
    if (this.#table.isFull) this.#table.clear();
    const id = this.#symbols.findToken(this.#symbols.textOf(left) + this.#symbols.textOf(right));
    return this.#table.add(left, right, id === undefined ? -1 : (this.#ranks[id] as number), id ?? 0);
  }
}

function ranksByScore(vocabulary: Vocabulary): Int32Array {
  const { types, scores } = vocabulary;
  const ranks = new Int32Array(types.length).fill(-1);
  const order: number[] = [];
  types.forEach((type, id) => {
    if (isTextToken(type)) order.push(id);
  });
  order.sort((a, b) => (scores[b] as number) - (scores[a] as number));
  let rank = 0;
  order.forEach((id, at) => {
    // Equal scores share a rank, so that the leftmost pair merges first.
    if (at > 0 && scores[id] !== scores[order[at - 1] as number]) rank++;
    ranks[id] = rank;
  });
  return ranks;
}
