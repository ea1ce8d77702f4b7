import { byteToChar, decodeByteAlphabet } from './byte-alphabet.ts';
import { Merger } from './merge.ts';
import { MergeListPairs, SymbolTable } from './merge-list.ts';
import type { TextModel } from './text-model.ts';
import { isSpecial, tokenType, type Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';
import type { PreTokenizer } from './pre-tokenizer.ts';

/** Byte-level BPE (`tokenizer.ggml.model` 'gpt2'): merges the bytes of each word in the order of a merge list. */
export class BytePairModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #preTokenizer: PreTokenizer;
  readonly #ignoreMerges: boolean;
  readonly #symbols: SymbolTable;
  readonly #merger: Merger;
  readonly #cache = new WordCache();
  /** The symbol of each byte. */
  readonly #byteSymbols: Int32Array;
  #scratch = new Int32Array(256);

  /**
   * @param parts.merges lines `left right` in the byte alphabet, highest priority first
   * @param parts.ignoreMerges whether a word that equals a token becomes that token without merges
   */
  constructor(parts: {
    vocabulary: Vocabulary;
    merges: readonly string[];
    preTokenizer: PreTokenizer;
    ignoreMerges: boolean;
  }) {
    const { vocabulary } = parts;
    this.#vocabulary = vocabulary;
    this.#preTokenizer = parts.preTokenizer;
    this.#ignoreMerges = parts.ignoreMerges;
    this.#symbols = new SymbolTable(vocabulary);
    this.#byteSymbols = Int32Array.from(byteToChar, (char) => this.#symbols.intern(char));
    this.#merger = new Merger(new MergeListPairs(this.#symbols, parts.merges));
  }

  encode(text: string, isPromptStart: boolean, ids: number[]): void {
    this.#preTokenizer.forEachWord(text, isPromptStart, (word) => {
      const cached = this.#cache.get(word);
      if (cached) {
        for (const id of cached) ids.push(id);
        return;
      }
      const from = ids.length;
      this.#encodeWord(word, ids);
      this.#cache.store(word, ids, from);
    });
  }

  #encodeWord(word: string, ids: number[]): void {
    // A UTF-16 code unit takes at most 3 bytes in UTF-8.
    if (this.#scratch.length < word.length * 3) this.#scratch = new Int32Array(word.length * 3);
    const scratch = this.#scratch;
    const length = this.#preTokenizer.usesByteAlphabet
      ? this.#fromByteAlphabet(word, scratch)
      : this.#toByteSymbols(word, scratch);
    if (this.#ignoreMerges && length > 1) {
      const id = this.#findWholeWord(scratch, length);
      if (id !== undefined) {
        ids.push(id);
        return;
      }
    }
    const count = this.#merger.merge(scratch, length);
    for (let i = 0; i < count; i++) this.#appendSymbol(scratch[i] as number, ids);
    // Release the memory of a huge word.
    if (this.#scratch.length > 2 ** 20) this.#scratch = new Int32Array(256);
  }

  /** Appends the symbol's id, or the ids of its bytes. A byte without a token becomes the unknown token. */
  #appendSymbol(symbol: number, ids: number[]): void {
    if (symbol < this.#vocabulary.tokens.length) {
      ids.push(symbol);
      return;
    }
    for (const char of this.#symbols.textOf(symbol)) {
      const id = this.#vocabulary.ids.get(char) ?? this.#vocabulary.unknownId;
      if (id !== undefined) ids.push(id);
    }
  }

  /** Writes the symbols of the word's UTF-8 bytes and returns their number. */
  #toByteSymbols(word: string, output: Int32Array): number {
    const symbols = this.#byteSymbols;
    let length = 0;
    for (let i = 0; i < word.length; i++) {
      const unit = word.charCodeAt(i);
      if (unit < 0x80) {
        output[length++] = symbols[unit] as number;
        continue;
      }
      const point = word.codePointAt(i) as number;
      if (point > 0xffff) i++;
      if (point < 0x800) {
        output[length++] = symbols[0xc0 | (point >> 6)] as number;
      } else if (point < 0x10000) {
        output[length++] = symbols[0xe0 | (point >> 12)] as number;
        output[length++] = symbols[0x80 | ((point >> 6) & 0x3f)] as number;
      } else {
        output[length++] = symbols[0xf0 | (point >> 18)] as number;
        output[length++] = symbols[0x80 | ((point >> 12) & 0x3f)] as number;
        output[length++] = symbols[0x80 | ((point >> 6) & 0x3f)] as number;
      }
      output[length++] = symbols[0x80 | (point & 0x3f)] as number;
    }
    return length;
  }

  /** Like `toByteSymbols`, for a word that is already written in the byte alphabet. */
  #fromByteAlphabet(word: string, output: Int32Array): number {
    for (let i = 0; i < word.length; i++) output[i] = this.#symbols.intern(word.charAt(i));
    return word.length;
  }

  #findWholeWord(symbols: Int32Array, length: number): number | undefined {
    // No vocabulary has such a long token, but a prompt may have such a long word.
    if (length > 1024) return undefined;
    let text = '';
    for (let i = 0; i < length; i++) text += this.#symbols.textOf(symbols[i] as number);
    const id = this.#vocabulary.ids.get(text);
    return id !== undefined && !isSpecial(this.#vocabulary.types[id] as number) ? id : undefined;
  }

  tokenBytes(id: number): Uint8Array {
    const text = this.#vocabulary.tokens[id] as string;
    const type = this.#vocabulary.types[id];
    const decoded = type === tokenType.normal ? decodeByteAlphabet(text) : undefined;
    return decoded ?? new TextEncoder().encode(text);
  }
}
