import type { GrammarCompiler, TokenizerInfo } from '@mlc-ai/web-xgrammar';
import { byteToChar } from '../byte-alphabet.ts';
import { markByte, markCharacter, maxMarks } from '../ebnf/length-marks.ts';
import type { XGrammarLibrary } from './grammar-runtime.ts';
import type { GrammarVocabulary } from './messages.ts';
import { TokenLengthFilter } from './token-length-filter.ts';

const quote = 0x22;

/**
 * A vocabulary in the library's format, for a set of visible tokens. After the model's rows it has one row for each
 * length mark, and one row that occurs in no grammar.
 */
export class TokenTable {
  readonly compiler: GrammarCompiler;
  readonly lengthFilter: TokenLengthFilter;
  /** Number of rows of the model. */
  readonly rowCount: number;
  readonly endIds: readonly number[];
  /** Bitset of the tokens that have bytes and of the end tokens: [ceil(rowCount / 32)]. */
  readonly #writable: Uint32Array;
  /** Bitset of the tokens whose last byte is a quote. */
  readonly #quoteTokens: Uint32Array;
  readonly #info: TokenizerInfo;
  /** Number of compiled grammars that use this table. */
  grammarCount = 0;

  private constructor(
    info: TokenizerInfo,
    compiler: GrammarCompiler,
    { bytes, ends, size: rowCount, endIds }: GrammarVocabulary,
  ) {
    this.#info = info;
    this.compiler = compiler;
    this.lengthFilter = new TokenLengthFilter({ bytes, ends });
    this.rowCount = rowCount;
    this.endIds = endIds;
    const [writableIds, quoteTokens] = [[...endIds], [] as number[]];
    for (const [id, token] of iterateTokens({ bytes, ends })) {
      // No text contains the byte of length marks, but the library would allow it in free text.
      if (token.length > 0 && !token.includes(markByte)) writableIds.push(id);
      if (token.at(-1) === quote) quoteTokens.push(id);
    }
    this.#writable = this.createMask(writableIds);
    this.#quoteTokens = this.createMask(quoteTokens);
  }

  static async create(
    library: XGrammarLibrary,
    vocabulary: GrammarVocabulary,
    visible: readonly (readonly [id: number, text: string])[],
  ): Promise<TokenTable> {
    const visibleVocabulary = withVisibleTexts(vocabulary, visible);
    const rows = Array.from({ length: vocabulary.size }, () => '');
    for (const [id, token] of iterateTokens(visibleVocabulary)) rows[id] = encodeByteAlphabet(token);
    for (let index = 0; index <= maxMarks; index++)
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
    return new TokenTable(
      info,
      await library.GrammarCompiler.createGrammarCompiler(info, false),
      visibleVocabulary,
    );
  }

  createMask(ids: readonly number[]): Uint32Array {
    const mask = new Uint32Array(Math.ceil(this.rowCount / 32));
    for (const id of ids) mask[id >> 5] = (mask[id >> 5] as number) | (1 << (id & 31));
    return mask;
  }

  /** Converts a mask of the library to a mask of the model's rows. */
  toWritableMask(libraryMask: Int32Array): Uint32Array {
    const mask = new Uint32Array(this.#writable.length);
    // When everything is allowed, the library also allows rows that are not tokens.
    for (let word = 0; word < mask.length; word++)
      mask[word] = (libraryMask[word] as number) & (this.#writable[word] as number);
    return mask;
  }

  /** Lists the marks below `count` that a mask of the library allows; none when the mask allows everything. */
  listAllowedMarks(libraryMask: Int32Array, count: number): number[] {
    if (hasBit(libraryMask, this.rowOfMark(maxMarks))) return [];
    return Array.from({ length: count }, (_, index) => index).filter((index) =>
      hasBit(libraryMask, this.rowOfMark(index)),
    );
  }

  rowOfMark(index: number): number {
    return this.rowCount + index;
  }

  endsInQuote(id: number): boolean {
    return hasBit(this.#quoteTokens, id);
  }

  dispose(): void {
    this.compiler.dispose();
    this.#info.dispose();
  }
}

const hasBit = (mask: Uint32Array | Int32Array, id: number): boolean =>
  (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1;

function* iterateTokens({
  bytes,
  ends,
}: Pick<GrammarVocabulary, 'bytes' | 'ends'>): Iterable<[number, Uint8Array]> {
  let start = 0;
  for (const [id, end] of ends.entries()) {
    yield [id, bytes.subarray(start, end)];
    start = end;
  }
}

/** Adds the texts of visible control tokens to a vocabulary. */
function withVisibleTexts(
  vocabulary: GrammarVocabulary,
  visible: readonly (readonly [id: number, text: string])[],
) {
  if (visible.length === 0) return vocabulary;
  const texts = new Map(visible.map(([id, text]) => [id, new TextEncoder().encode(text)]));
  const parts = [...iterateTokens(vocabulary)].map(([id, token]) => texts.get(id) ?? token);
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
function encodeByteAlphabet(bytes: Uint8Array): string {
  let encoded = '';
  for (const byte of bytes) encoded += byteToChar[byte];
  return encoded;
}
