import { lowerCase as lowerCased } from './normalizer.ts';
import { spaceMark } from './pieces.ts';
import type { TextModel } from './text-model.ts';
import { isSpecial, type Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';

/** How a character affects the current word. */
const characterRoles = { unclassified: 0, letter: 1, space: 2, dropped: 3, isolated: 4 } as const;
type Role = (typeof characterRoles)[keyof typeof characterRoles];

const whitespacePattern = /\p{White_Space}/u;
/** Control characters except tabs and line breaks, which separate words. */
const droppedPattern = /[[\p{Cc}\p{Cf}\p{Co}\ufffd]--[\t\n\r]]/v;
/** Unicode punctuation and ASCII symbols; each is a word. */
const punctuationPattern = /[\p{P}$+<=>^`|~]/u;
const hanPattern =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/u;

export interface WordPieceOptions {
  readonly lowerCase: boolean;
  readonly stripAccents: boolean;
  /** Whether every Han character is a separate word. */
  readonly splitsHan: boolean;
  /** Whether control characters are removed. */
  readonly dropsControlCharacters: boolean;
  /** Longer words become the unknown token. */
  readonly maxWordCharacters: number;
}

/**
 * BERT's WordPiece (`tokenizer.ggml.model` 'bert'): normalizes case and accents, then splits each word greedily into
 * the longest tokens. GGUF writes the first token of a word with `▁` and the others without `##`.
 */
export class WordPieceModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #options: WordPieceOptions;
  readonly #maxTokenLength: number;
  readonly #cache = new WordCache();
  /** Roles by code point, filled on first use. */
  readonly #roleCache = new Uint8Array(0x110000);

  constructor(vocabulary: Vocabulary, options: WordPieceOptions) {
    this.#vocabulary = vocabulary;
    this.#options = options;
    this.#maxTokenLength = vocabulary.tokens.reduce((longest, token) => Math.max(longest, token.length), 0);
  }

  encode(text: string, _first: boolean, ids: number[]): void {
    const { lowerCase, stripAccents } = this.#options;
    const plain = stripAccents ? text.normalize('NFD').replaceAll(/\p{Mn}/gu, '') : text;
    // Dropped characters do not separate words, so a word is assembled from the spans between them.
    let word = '';
    let start = 0;
    let at = 0;
    const finish = () => {
      const whole = word + plain.slice(start, at);
      word = '';
      if (whole !== '') this.#encodeCached(lowerCase ? lowerCased(whole) : whole, ids);
    };
    while (at < plain.length) {
      const point = plain.codePointAt(at) as number;
      const next = at + (point > 0xffff ? 2 : 1);
      const role = this.#roleOf(point);
      if (role === characterRoles.dropped) word += plain.slice(start, at);
      else if (role !== characterRoles.letter) finish();
      if (role !== characterRoles.letter) start = next;
      if (role === characterRoles.isolated) {
        start = at;
        at = next;
        finish();
        start = next;
      }
      at = next;
    }
    finish();
  }

  #roleOf(point: number): Role {
    const cached = this.#roleCache[point] as Role;
    if (cached !== characterRoles.unclassified) return cached;
    const char = String.fromCodePoint(point);
    let found: Role = characterRoles.letter;
    if (this.#options.dropsControlCharacters && droppedPattern.test(char)) found = characterRoles.dropped;
    else if (whitespacePattern.test(char)) found = characterRoles.space;
    else if (punctuationPattern.test(char) || (this.#options.splitsHan && hanPattern.test(char)))
      found = characterRoles.isolated;
    this.#roleCache[point] = found;
    return found;
  }

  #encodeCached(word: string, ids: number[]): void {
    const cached = this.#cache.get(word);
    if (cached) {
      for (const id of cached) ids.push(id);
      return;
    }
    const from = ids.length;
    if (!this.#encodeWord(word, ids)) {
      ids.length = from;
      if (this.#vocabulary.unknownId !== undefined) ids.push(this.#vocabulary.unknownId);
    }
    this.#cache.store(word, ids, from);
  }

  /** Returns false when some part of the word has no token. */
  #encodeWord(word: string, ids: number[]): boolean {
    if (countCodePoints(word) > this.#options.maxWordCharacters) return false;
    const marked = spaceMark + word;
    let start = 0;
    while (start < marked.length) {
      // A `▁` inside a word must not match a token that starts a word.
      if (start > 0 && marked.startsWith(spaceMark, start)) return false;
      let id: number | undefined;
      let end = Math.min(marked.length, start + this.#maxTokenLength);
      for (; end > start; end--) {
        id = this.#vocabulary.ids.get(marked.slice(start, end));
        if (id !== undefined && !isSpecial(this.#vocabulary.types[id] as number)) break;
        id = undefined;
      }
      if (id === undefined) return false;
      ids.push(id);
      start = end;
    }
    return true;
  }

  tokenBytes(id: number): Uint8Array {
    return new TextEncoder().encode((this.#vocabulary.tokens[id] as string).replace(spaceMark, ' '));
  }
}

function countCodePoints(word: string): number {
  let count = 0;
  for (let i = 0; i < word.length; i++) if ((word.charCodeAt(i) & 0xfc00) !== 0xdc00) count++;
  return count;
}
