import { Merger, type Pairs, PairTable } from './merge.ts';
import { isText, ListedPairs, pairCapacity, SymbolTable } from './merge-list.ts';
import { ByteSpeller, pieceBytes, PieceSpans } from './pieces.ts';
import type { TextModel } from './text-model.ts';
import type { Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';
import type { Words } from './words.ts';

/**
 * SentencePiece's BPE (`tokenizer.ggml.model` 'llama'): merges characters when the result is a token, the best score
 * first or in the order of a merge list. A character without a token becomes `<0xNN>` byte tokens.
 */
export class SentencePieceModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #words: Words;
  readonly #symbols: SymbolTable;
  readonly #merger: Merger;
  readonly #cache = new WordCache();
  readonly #speller: ByteSpeller;
  /** Byte token ids by the symbol of a character without a token. */
  readonly #spelled = new Map<number, readonly number[]>();
  readonly #spans: PieceSpans;
  #work = new Int32Array(256);

  /**
   * @param preTokenizer yields words with spaces written as `▁`
   * @param merges lines `left right`; undefined to merge by scores
   */
  constructor(vocabulary: Vocabulary, words: Words, merges: readonly string[] | undefined) {
    this.#vocabulary = vocabulary;
    this.#words = words;
    this.#symbols = new SymbolTable(vocabulary);
    this.#merger = new Merger(
      merges ? new ListedPairs(this.#symbols, merges) : new ScoredPairs(vocabulary, this.#symbols),
    );
    this.#speller = new ByteSpeller(vocabulary);
    this.#spans = new PieceSpans(vocabulary.tokens);
  }

  encode(text: string, first: boolean, ids: number[]): void {
    this.#words.visit(text, first, (piece) =>
      this.#spans.visit(piece, (word) => this.#encodeCached(word, ids)),
    );
  }

  #encodeCached(word: string, ids: number[]): void {
    const known = this.#cache.get(word);
    if (known) {
      for (const id of known) ids.push(id);
      return;
    }
    const from = ids.length;
    this.#encodeWord(word, ids);
    this.#cache.keep(word, ids, from);
  }

  #encodeWord(word: string, ids: number[]): void {
    if (this.#work.length < word.length) this.#work = new Int32Array(word.length);
    const work = this.#work;
    let length = 0;
    for (const char of word) work[length++] = this.#symbols.of(char);
    const count = this.#merger.merge(work, length);
    for (let i = 0; i < count; i++) {
      const symbol = work[i] as number;
      if (symbol < this.#vocabulary.tokens.length) ids.push(symbol);
      else for (const id of this.#spell(symbol)) ids.push(id);
    }
    // Release the memory of a huge word.
    if (this.#work.length > 2 ** 20) this.#work = new Int32Array(256);
  }

  #spell(symbol: number): readonly number[] {
    let ids = this.#spelled.get(symbol);
    if (!ids) {
      ids = this.#speller.spell(this.#symbols.text(symbol));
      this.#spelled.set(symbol, ids);
    }
    return ids;
  }

  bytes(id: number): Uint8Array {
    return pieceBytes(this.#vocabulary, id);
  }
}

/** Pairs that merge because the result is a token with a score, looked up on first use. */
class ScoredPairs implements Pairs {
  readonly #symbols: SymbolTable;
  /** Rank by token: 0 for the best score; -1 for tokens that text never becomes. */
  readonly #ranks: Int32Array;
  readonly #table: PairTable;

  constructor(vocabulary: Vocabulary, symbols: SymbolTable) {
    this.#symbols = symbols;
    this.#ranks = ranksByScore(vocabulary);
    this.#table = new PairTable(pairCapacity(vocabulary.tokens.length));
  }

  rankOf(left: number, right: number): number {
    return this.#table.rank[this.#entry(left, right)] as number;
  }

  mergedOf(left: number, right: number): number {
    return this.#table.merged[this.#entry(left, right)] as number;
  }

  #entry(left: number, right: number): number {
    const found = this.#table.find(left, right);
    if (found >= 0) return found;
    if (this.#table.full) this.#table.clear();
    const id = this.#symbols.token(this.#symbols.text(left) + this.#symbols.text(right));
    return this.#table.add(left, right, id === undefined ? -1 : (this.#ranks[id] as number), id ?? 0);
  }
}

function ranksByScore(vocabulary: Vocabulary): Int32Array {
  const { types, scores } = vocabulary;
  const ranks = new Int32Array(types.length).fill(-1);
  const order: number[] = [];
  types.forEach((type, id) => {
    if (isText(type)) order.push(id);
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
