import type { TextModel } from './text-model.ts';
import type { Vocabulary } from './vocabulary.ts';

const wordStart = '▁';
const isSpace = /\p{White_Space}/u;
const isDropped = /[\0\ufffd\p{Cc}\p{Cf}]/u;
/** Unicode punctuation and the ASCII symbols: a token each. */
const isMark = /[\p{P}$+<=>^`|~]/u;
const isHan =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/u;

/**
 * BERT's WordPiece (`tokenizer.ggml.model` 'bert'): words without case and accents, each cut greedily into the
 * longest tokens. GGUF writes a word's first token with `▁` and the others without `##`.
 */
export class WordPieceModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #lowerCase: boolean;
  readonly #stripAccents: boolean;
  readonly #longestToken: number;

  constructor(vocabulary: Vocabulary, normalizer: { lowerCase: boolean; stripAccents: boolean }) {
    this.#vocabulary = vocabulary;
    this.#lowerCase = normalizer.lowerCase;
    this.#stripAccents = normalizer.stripAccents;
    this.#longestToken = vocabulary.tokens.reduce((longest, token) => Math.max(longest, token.length), 0);
  }

  encode(text: string, _start: boolean, ids: number[]): void {
    for (const word of this.#words(text)) {
      const first = ids.length;
      if (this.#encodeWord(wordStart + word, ids)) continue;
      ids.length = first;
      if (this.#vocabulary.unknownId !== undefined) ids.push(this.#vocabulary.unknownId);
    }
  }

  /** False when some part of the word has no token. */
  #encodeWord(word: string, ids: number[]): boolean {
    let start = 0;
    while (start < word.length) {
      let end = Math.min(word.length, start + this.#longestToken);
      let id: number | undefined;
      for (; end > start; end--) {
        id = this.#vocabulary.ids.get(word.slice(start, end));
        if (id !== undefined) break;
      }
      if (id === undefined) return false;
      ids.push(id);
      start = end;
    }
    return true;
  }

  *#words(text: string): Generator<string> {
    const plain = this.#stripAccents ? text.normalize('NFD').replace(/\p{Mn}/gu, '') : text;
    let word = '';
    for (const char of plain) {
      const apart = isMark.test(char) || isHan.test(char);
      const breaks = apart || isSpace.test(char);
      if (breaks) {
        if (word) yield word;
        word = '';
        if (apart) yield this.#lowerCase ? char.toLowerCase() : char;
      } else if (!isDropped.test(char)) {
        word += this.#lowerCase ? char.toLowerCase() : char;
      }
    }
    if (word) yield word;
  }

  bytes(id: number): Uint8Array {
    return new TextEncoder().encode((this.#vocabulary.tokens[id] as string).replace(wordStart, ' '));
  }
}
