import type { GrammarCompiler, TokenizerInfo } from '@mlc-ai/web-xgrammar';
import { byteToChar } from '../byte-alphabet.ts';
import { markByte, markCharacter, mostMarks } from '../ebnf/marks.ts';
import type { Library } from './matching.ts';
import type { Vocabulary } from './messages.ts';
import { TokenLengths } from './token-lengths.ts';

const quote = 0x22;

/**
 * A vocabulary in the library's format, for a set of visible tokens. After the model's rows it has one row for each
 * length mark, and one row that occurs in no grammar.
 */
export class Tokens {
  readonly compiler: GrammarCompiler;
  readonly lengths: TokenLengths;
  /** Number of rows of the model. */
  readonly size: number;
  readonly endIds: readonly number[];
  /** Bitset of the tokens that have bytes and of the end tokens: [ceil(rowCount / 32)]. */
  readonly #writable: Uint32Array;
  /** Bitset of the tokens whose last byte is a quote. */
  readonly #quotes: Uint32Array;
  readonly #info: TokenizerInfo;
  /** Number of compiled grammars that use this table. */
  grammars = 0;

  private constructor(
    info: TokenizerInfo,
    compiler: GrammarCompiler,
    { bytes, ends, size, endIds }: Vocabulary,
  ) {
    this.#info = info;
    this.compiler = compiler;
    this.lengths = new TokenLengths({ bytes, ends });
    this.size = size;
    this.endIds = endIds;
    const [written, quotes] = [[...endIds], [] as number[]];
    for (const [id, token] of tokensOf({ bytes, ends })) {
      // No text contains the byte of length marks, but the library would allow it in free text.
      if (token.length > 0 && !token.includes(markByte)) written.push(id);
      if (token.at(-1) === quote) quotes.push(id);
    }
    this.#writable = this.maskOf(written);
    this.#quotes = this.maskOf(quotes);
  }

  static async open(
    library: Library,
    vocabulary: Vocabulary,
    visible: readonly (readonly [id: number, text: string])[],
  ): Promise<Tokens> {
    const shown = showing(vocabulary, visible);
    const rows = Array.from({ length: vocabulary.size }, () => '');
    for (const [id, token] of tokensOf(shown)) rows[id] = alphabet(token);
    for (let index = 0; index <= mostMarks; index++)
      rows.push(`${byteToChar[markByte]}${markCharacter(index)}`);
    const ends = [...vocabulary.endIds];
    const info = await library.TokenizerInfo.createTokenizerInfo(
      rows,
      'byte_level',
      false,
      rows.length,
      ends,
    );
    // The library's cache is disabled, because it would grow without limit.
    return new Tokens(info, await library.GrammarCompiler.createGrammarCompiler(info, false), shown);
  }

  maskOf(ids: readonly number[]): Uint32Array {
    const mask = new Uint32Array(Math.ceil(this.size / 32));
    for (const id of ids) mask[id >> 5] = (mask[id >> 5] as number) | (1 << (id & 31));
    return mask;
  }

  /** Converts a mask of the library to a mask of the model's rows. */
  writableOf(raw: Int32Array): Uint32Array {
    const mask = new Uint32Array(this.#writable.length);
    // When everything is allowed, the library also allows rows that are not tokens.
    for (let word = 0; word < mask.length; word++)
      mask[word] = (raw[word] as number) & (this.#writable[word] as number);
    return mask;
  }

  /** Lists the marks below `count` that a mask of the library allows; none when the mask allows everything. */
  marksIn(raw: Int32Array, count: number): number[] {
    if (has(raw, this.markRow(mostMarks))) return [];
    return Array.from({ length: count }, (_, index) => index).filter((index) =>
      has(raw, this.markRow(index)),
    );
  }

  markRow(index: number): number {
    return this.size + index;
  }

  endsInQuote(id: number): boolean {
    return has(this.#quotes, id);
  }

  dispose(): void {
    this.compiler.dispose();
    this.#info.dispose();
  }
}

const has = (mask: Uint32Array | Int32Array, id: number): boolean =>
  (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1;

function* tokensOf({ bytes, ends }: Pick<Vocabulary, 'bytes' | 'ends'>): Iterable<[number, Uint8Array]> {
  let start = 0;
  for (const [id, end] of ends.entries()) {
    yield [id, bytes.subarray(start, end)];
    start = end;
  }
}

/** Adds the texts of visible control tokens to a vocabulary. */
function showing(vocabulary: Vocabulary, visible: readonly (readonly [id: number, text: string])[]) {
  if (visible.length === 0) return vocabulary;
  const texts = new Map(visible.map(([id, text]) => [id, new TextEncoder().encode(text)]));
  const parts = [...tokensOf(vocabulary)].map(([id, token]) => texts.get(id) ?? token);
  const ends = new Uint32Array(parts.length);
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const [id, part] of parts.entries()) {
    bytes.set(part, at);
    at += part.length;
    ends[id] = at;
  }
  return { ...vocabulary, bytes, ends };
}

/** Writes bytes in GPT-2's byte alphabet. */
function alphabet(bytes: Uint8Array): string {
  let written = '';
  for (const byte of bytes) written += byteToChar[byte];
  return written;
}
