import { byteToChar, bytesOfAlphabet } from './byte-alphabet.ts';
import { Merger } from './merge.ts';
import { ListedPairs, SymbolTable } from './merge-list.ts';
import type { TextModel } from './text-model.ts';
import { isSpecial, tokenType, type Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';
import type { Words } from './words.ts';

/** Byte-level BPE (`tokenizer.ggml.model` 'gpt2'): merges the bytes of each word in the order of a merge list. */
export class BytePairModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #words: Words;
  readonly #ignoreMerges: boolean;
  readonly #symbols: SymbolTable;
  readonly #merger: Merger;
  readonly #cache = new WordCache();
  /** The symbol of each byte. */
  readonly #byteSymbols: Int32Array;
  #work = new Int32Array(256);

  /**
   * @param parts.merges lines `left right` in the byte alphabet, highest priority first
   * @param parts.ignoreMerges whether a word that equals a token becomes that token without merges
   */
  constructor(parts: {
    vocabulary: Vocabulary;
    merges: readonly string[];
    words: Words;
    ignoreMerges: boolean;
  }) {
    const { vocabulary } = parts;
    this.#vocabulary = vocabulary;
    this.#words = parts.words;
    this.#ignoreMerges = parts.ignoreMerges;
    this.#symbols = new SymbolTable(vocabulary);
    this.#byteSymbols = Int32Array.from(byteToChar, (char) => this.#symbols.of(char));
    this.#merger = new Merger(new ListedPairs(this.#symbols, parts.merges));
  }

  encode(text: string, first: boolean, ids: number[]): void {
    this.#words.visit(text, first, (word) => {
      const known = this.#cache.get(word);
      if (known) {
        for (const id of known) ids.push(id);
        return;
      }
      const from = ids.length;
      this.#encodeWord(word, ids);
      this.#cache.keep(word, ids, from);
    });
  }

  #encodeWord(word: string, ids: number[]): void {
    // A UTF-16 code unit takes at most 3 bytes in UTF-8.
    if (this.#work.length < word.length * 3) this.#work = new Int32Array(word.length * 3);
    const work = this.#work;
    const length = this.#words.inBytes ? this.#readBytes(word, work) : this.#writeBytes(word, work);
    if (this.#ignoreMerges && length > 1) {
      const id = this.#wholeWord(work, length);
      if (id !== undefined) {
        ids.push(id);
        return;
      }
    }
    const count = this.#merger.merge(work, length);
    for (let i = 0; i < count; i++) this.#emit(work[i] as number, ids);
    // Release the memory of a huge word.
    if (this.#work.length > 2 ** 20) this.#work = new Int32Array(256);
  }

  /** Appends the symbol's id, or the ids of its bytes. A byte without a token becomes the unknown token. */
  #emit(symbol: number, ids: number[]): void {
    if (symbol < this.#vocabulary.tokens.length) {
      ids.push(symbol);
      return;
    }
    for (const char of this.#symbols.text(symbol)) {
      const id = this.#vocabulary.ids.get(char) ?? this.#vocabulary.unknownId;
      if (id !== undefined) ids.push(id);
    }
  }

  /** Writes the symbols of the word's UTF-8 bytes and returns their number. */
  #writeBytes(word: string, into: Int32Array): number {
    const symbols = this.#byteSymbols;
    let length = 0;
    for (let i = 0; i < word.length; i++) {
      const unit = word.charCodeAt(i);
      if (unit < 0x80) {
        into[length++] = symbols[unit] as number;
        continue;
      }
      const point = word.codePointAt(i) as number;
      if (point > 0xffff) i++;
      if (point < 0x800) {
        into[length++] = symbols[0xc0 | (point >> 6)] as number;
      } else if (point < 0x10000) {
        into[length++] = symbols[0xe0 | (point >> 12)] as number;
        into[length++] = symbols[0x80 | ((point >> 6) & 0x3f)] as number;
      } else {
        into[length++] = symbols[0xf0 | (point >> 18)] as number;
        into[length++] = symbols[0x80 | ((point >> 12) & 0x3f)] as number;
        into[length++] = symbols[0x80 | ((point >> 6) & 0x3f)] as number;
      }
      into[length++] = symbols[0x80 | (point & 0x3f)] as number;
    }
    return length;
  }

  /** Like `toByteSymbols`, for a word that is already written in the byte alphabet. */
  #readBytes(word: string, into: Int32Array): number {
    for (let i = 0; i < word.length; i++) into[i] = this.#symbols.of(word.charAt(i));
    return word.length;
  }

  #wholeWord(symbols: Int32Array, length: number): number | undefined {
    // No vocabulary has such a long token, but a prompt may have such a long word.
    if (length > 1024) return undefined;
    let text = '';
    for (let i = 0; i < length; i++) text += this.#symbols.text(symbols[i] as number);
    const id = this.#vocabulary.ids.get(text);
    return id !== undefined && !isSpecial(this.#vocabulary.types[id] as number) ? id : undefined;
  }

  bytes(id: number): Uint8Array {
    const text = this.#vocabulary.tokens[id] as string;
    const type = this.#vocabulary.types[id];
    const written = type === tokenType.normal ? bytesOfAlphabet(text) : undefined;
    return written ?? new TextEncoder().encode(text);
  }
}
