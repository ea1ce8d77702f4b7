import { PairTable } from './merge.ts';
import { ByteSpeller, pieceBytes, PieceSpans } from './pieces.ts';
import type { TextModel } from './text-model.ts';
import { tokenType, type Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';
import type { Words } from './words.ts';

/** How far the score of an unknown character is below the lowest token score. */
const unknownPenalty = 10;
const unknown = -1;

/**
 * SentencePiece's unigram model (`tokenizer.ggml.model` 't5'): finds the segmentation with the highest sum of scores.
 * Adjacent characters without a token become one unknown token, or `<0xNN>` byte tokens.
 */
export class UnigramModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #words: Words;
  readonly #spans: PieceSpans;
  readonly #cache = new WordCache();
  readonly #speller: ByteSpeller;
  readonly #tokens: TokenTrie;
  readonly #unknownScore: number;
  /** By position in a word: the best score up to it, and the start and id of the token that ends there. */
  #sums = new Float64Array(256);
  #starts = new Int32Array(256);
  #ids = new Int32Array(256);

  constructor(vocabulary: Vocabulary, words: Words) {
    this.#vocabulary = vocabulary;
    this.#words = words;
    this.#spans = new PieceSpans(vocabulary.tokens);
    this.#speller = new ByteSpeller(vocabulary);
    this.#tokens = new TokenTrie(vocabulary);
    let worst = 0;
    vocabulary.types.forEach((type, id) => {
      if (type === tokenType.normal) worst = Math.min(worst, vocabulary.scores[id] as number);
    });
    this.#unknownScore = worst - unknownPenalty;
  }

  encode(text: string, first: boolean, ids: number[]): void {
    this.#words.visit(text, first, (piece) => {
      const from = ids.length;
      this.#spans.visit(piece, (word) => this.#encodeCached(word, ids, from));
    });
  }

  #encodeCached(word: string, ids: number[], pieceStart: number): void {
    const known = this.#cache.get(word);
    if (known) return this.#append(known, ids, pieceStart);
    const found: number[] = [];
    this.#encodeWord(word, found);
    this.#append(found, ids, pieceStart);
    this.#cache.keep(word, found, 0);
  }

  /** Merges unknown tokens across words, unless the pre-tokenizer separated the words. */
  #append(found: readonly number[], ids: number[], pieceStart: number): void {
    const { unknownId } = this.#vocabulary;
    let skip = 0;
    if (ids.length > pieceStart && found[0] === unknownId && ids.at(-1) === unknownId) skip = 1;
    for (let i = skip; i < found.length; i++) ids.push(found[i] as number);
  }

  #encodeWord(word: string, ids: number[]): void {
    this.#findBest(word);
    // Backtrack from the end to the start.
    const path: number[] = [];
    for (let at = word.length; at > 0; at = this.#starts[at] as number) path.push(at);
    let unknownStart: number | undefined;
    const flush = (end: number) => {
      if (unknownStart === undefined) return;
      for (const id of this.#speller.spell(word.slice(unknownStart, end))) ids.push(id);
      unknownStart = undefined;
    };
    for (const end of path.toReversed()) {
      const id = this.#ids[end] as number;
      const start = this.#starts[end] as number;
      if (id === unknown) {
        unknownStart ??= start;
        continue;
      }
      flush(start);
      ids.push(id);
    }
    flush(word.length);
    // Release the memory of a huge word.
    if (this.#sums.length > 2 ** 20) this.#reserve(256);
  }

  #reserve(size: number): void {
    this.#sums = new Float64Array(size);
    this.#starts = new Int32Array(size);
    this.#ids = new Int32Array(size);
  }

  #findBest(word: string): void {
    if (this.#sums.length <= word.length) this.#reserve(word.length + 1);
    const sums = this.#sums;
    const { scores } = this.#vocabulary;
    sums.fill(Number.NEGATIVE_INFINITY, 1, word.length + 1);
    sums[0] = 0;
    const offer = (start: number, end: number, id: number, score: number) => {
      const sum = (sums[start] as number) + score;
      // On equal scores the longer token, which was found first, wins.
      if (sum <= (sums[end] as number)) return;
      sums[end] = sum;
      this.#starts[end] = start;
      this.#ids[end] = id;
    };
    for (let start = 0; start < word.length; ) {
      const next = start + ((word.codePointAt(start) as number) > 0xffff ? 2 : 1);
      let single = false;
      let node = 0;
      for (let at = start; at < word.length; at++) {
        node = this.#tokens.next(node, word.charCodeAt(at));
        if (node < 0) break;
        const id = this.#tokens.token(node);
        if (id < 0) continue;
        offer(start, at + 1, id, scores[id] as number);
        if (at + 1 === next) single = true;
      }
      if (!single) offer(start, next, unknown, this.#unknownScore);
      start = next;
    }
  }

  bytes(id: number): Uint8Array {
    return pieceBytes(this.#vocabulary, id);
  }
}

/** A trie of the tokens that text may become, by code unit. A node is 0 for the root, or a table entry + 1. */
class TokenTrie {
  readonly #table: PairTable;

  constructor(vocabulary: Vocabulary) {
    const { tokens, types } = vocabulary;
    const ids = tokens.flatMap((text, id) =>
      (types[id] === tokenType.normal || types[id] === tokenType.userDefined) && text !== '' ? [id] : [],
    );
    this.#table = new PairTable(ids.reduce((sum, id) => sum + (tokens[id] as string).length, 0));
    for (const id of ids) {
      const text = tokens[id] as string;
      let node = 0;
      for (let i = 0; i < text.length; i++) node = this.#table.add(node, text.charCodeAt(i), -1, 0) + 1;
      // Of two tokens with the same text, the first wins.
      if ((this.#table.rank[node - 1] as number) < 0) this.#table.rank[node - 1] = id;
    }
  }

  /** The child node, or -1 when no token continues with this code unit. */
  next(node: number, unit: number): number {
    const entry = this.#table.find(node, unit);
    return entry < 0 ? -1 : entry + 1;
  }

  /** The token that ends at a node, or -1. */
  token(node: number): number {
    return this.#table.rank[node - 1] as number;
  }
}
