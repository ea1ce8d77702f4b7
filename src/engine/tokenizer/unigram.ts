import { PairTable } from './merge.ts';
import { ByteFallback, pieceBytes, TokenBoundarySplitter } from './pieces.ts';
import type { TextModel } from './text-model.ts';
import { tokenType, type Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';
import type { PreTokenizer } from './pre-tokenizer.ts';

/** How far the score of an unknown character is below the lowest token score. */
const unknownPenalty = 10;
const unknownPiece = -1;

/**
 * SentencePiece's unigram model (`tokenizer.ggml.model` 't5'): finds the segmentation with the highest sum of scores.
 * Adjacent characters without a token become one unknown token, or `<0xNN>` byte tokens.
 */
export class UnigramModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #preTokenizer: PreTokenizer;
  readonly #boundarySplitter: TokenBoundarySplitter;
  readonly #cache = new WordCache();
  readonly #byteFallback: ByteFallback;
  readonly #tokens: TokenTrie;
  readonly #unknownScore: number;
  /** By position in a word: the best score up to it, and the start and id of the token that ends there. */
  #bestScores = new Float64Array(256);
  #bestStarts = new Int32Array(256);
  #bestIds = new Int32Array(256);

  constructor(vocabulary: Vocabulary, preTokenizer: PreTokenizer) {
    this.#vocabulary = vocabulary;
    this.#preTokenizer = preTokenizer;
    this.#boundarySplitter = new TokenBoundarySplitter(vocabulary.tokens);
    this.#byteFallback = new ByteFallback(vocabulary);
    this.#tokens = new TokenTrie(vocabulary);
    let lowestScore = 0;
    vocabulary.types.forEach((type, id) => {
      if (type === tokenType.normal) lowestScore = Math.min(lowestScore, vocabulary.scores[id] as number);
    });
    this.#unknownScore = lowestScore - unknownPenalty;
  }

  encode(text: string, isPromptStart: boolean, ids: number[]): void {
    this.#preTokenizer.forEachWord(text, isPromptStart, (piece) => {
      const from = ids.length;
      this.#boundarySplitter.forEachWord(piece, (word) => this.#encodeCached(word, ids, from));
    });
  }

  #encodeCached(word: string, ids: number[], pieceStart: number): void {
    const cached = this.#cache.get(word);
    if (cached) return this.#append(cached, ids, pieceStart);
    const found: number[] = [];
    this.#encodeWord(word, found);
    this.#append(found, ids, pieceStart);
    this.#cache.store(word, found, 0);
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
    for (let at = word.length; at > 0; at = this.#bestStarts[at] as number) path.push(at);
    let unknownStart: number | undefined;
    const flush = (end: number) => {
      if (unknownStart === undefined) return;
      for (const id of this.#byteFallback.encode(word.slice(unknownStart, end))) ids.push(id);
      unknownStart = undefined;
    };
    for (const end of path.toReversed()) {
      const id = this.#bestIds[end] as number;
      const start = this.#bestStarts[end] as number;
      if (id === unknownPiece) {
        unknownStart ??= start;
        continue;
      }
      flush(start);
      ids.push(id);
    }
    flush(word.length);
    // Release the memory of a huge word.
    if (this.#bestScores.length > 2 ** 20) this.#reserve(256);
  }

  #reserve(size: number): void {
    this.#bestScores = new Float64Array(size);
    this.#bestStarts = new Int32Array(size);
    this.#bestIds = new Int32Array(size);
  }

  #findBest(word: string): void {
    if (this.#bestScores.length <= word.length) this.#reserve(word.length + 1);
    const bestScores = this.#bestScores;
    const { scores } = this.#vocabulary;
    bestScores.fill(Number.NEGATIVE_INFINITY, 1, word.length + 1);
    bestScores[0] = 0;
    const relax = (start: number, end: number, id: number, score: number) => {
      const sum = (bestScores[start] as number) + score;
      // On equal scores the longer token, which was found first, wins.
      if (sum <= (bestScores[end] as number)) return;
      bestScores[end] = sum;
      this.#bestStarts[end] = start;
      this.#bestIds[end] = id;
    };
    for (let start = 0; start < word.length; ) {
      const next = start + ((word.codePointAt(start) as number) > 0xffff ? 2 : 1);
      let hasSingleCharacterToken = false;
      let node = 0;
      for (let at = start; at < word.length; at++) {
        node = this.#tokens.childOf(node, word.charCodeAt(at));
        if (node < 0) break;
        const id = this.#tokens.tokenAt(node);
        if (id < 0) continue;
        relax(start, at + 1, id, scores[id] as number);
        if (at + 1 === next) hasSingleCharacterToken = true;
      }
      if (!hasSingleCharacterToken) relax(start, next, unknownPiece, this.#unknownScore);
      start = next;
    }
  }

  tokenBytes(id: number): Uint8Array {
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
      if ((this.#table.ranks[node - 1] as number) < 0) this.#table.ranks[node - 1] = id;
    }
  }

  /** The child node, or -1 when no token continues with this code unit. */
  childOf(node: number, unit: number): number {
    const entry = this.#table.find(node, unit);
    return entry < 0 ? -1 : entry + 1;
  }

  /** The token that ends at a node, or -1. */
  tokenAt(node: number): number {
    return this.#table.ranks[node - 1] as number;
  }
}
