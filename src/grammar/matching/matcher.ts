import type { CompiledGrammar, GrammarMatcher } from '@mlc-ai/web-xgrammar';
import { translateToXGrammar } from '../translate.ts';
import type { GrammarSource } from '../types.ts';
import type { LengthBounds } from '../ebnf/length-marks.ts';
import type { XGrammarLibrary } from './grammar-runtime.ts';
import type { OpenString } from './token-length-filter.ts';
import type { TokenTable } from './token-table.ts';

/** A token that the grammar does not allow at its position. */
export class TokenRejectedError extends Error {}

/** A grammar that is compiled for a token table. */
export class CompiledSource {
  readonly library: XGrammarLibrary;
  readonly tokenTable: TokenTable;
  readonly markedGrammar: CompiledGrammar;
  readonly lengths: readonly LengthBounds[];
  readonly #source: GrammarSource;
  #exactGrammar: CompiledGrammar | undefined;

  private constructor(
    library: XGrammarLibrary,
    tokenTable: TokenTable,
    source: GrammarSource,
    markedGrammar: CompiledGrammar,
    lengths: readonly LengthBounds[],
  ) {
    this.library = library;
    this.tokenTable = tokenTable;
    this.#source = source;
    this.markedGrammar = markedGrammar;
    this.lengths = lengths;
    tokenTable.grammarCount++;
  }

  /** @throws GrammarError */
  static async compile(
    library: XGrammarLibrary,
    tokenTable: TokenTable,
    source: GrammarSource,
  ): Promise<CompiledSource> {
    const { text, lengths } = translateToXGrammar(source, { allowLengthMarks: true });
    return new CompiledSource(
      library,
      tokenTable,
      source,
      await tokenTable.compiler.compileGrammar(text),
      lengths,
    );
  }

  /** The same grammar without length marks, compiled on first use. */
  async exactGrammar(): Promise<CompiledGrammar> {
    this.#exactGrammar ??= await this.tokenTable.compiler.compileGrammar(
      translateToXGrammar(this.#source, { allowLengthMarks: false }).text,
    );
    return this.#exactGrammar;
  }

  dispose(): void {
    this.markedGrammar.dispose();
    this.#exactGrammar?.dispose();
    this.tokenTable.grammarCount--;
  }
}

/** The state of one answer in its grammar. */
export class TokenMatcher {
  readonly #compiled: CompiledSource;
  #matcher: GrammarMatcher;
  /** Bounds of the length marks; empty once the grammar without marks is used. */
  #lengths: readonly LengthBounds[];
  readonly #accepted: number[] = [];
  #openString: OpenString | undefined;

  private constructor(compiled: CompiledSource, matcher: GrammarMatcher) {
    this.#compiled = compiled;
    this.#matcher = matcher;
    this.#lengths = compiled.lengths;
  }

  static async create(compiled: CompiledSource): Promise<TokenMatcher> {
    const { GrammarMatcher } = compiled.library;
    return new TokenMatcher(compiled, await GrammarMatcher.createGrammarMatcher(compiled.markedGrammar));
  }

  /** @throws TokenRejectedError */
  async accept(ids: readonly number[]): Promise<void> {
    for (const id of ids) await this.#acceptToken(id);
  }

  async mask(): Promise<Uint32Array> {
    const { tokenTable } = this.#compiled;
    // The library aborts when it is asked for a mask after the end.
    if (this.#matcher.isTerminated()) return tokenTable.createMask(tokenTable.endIds);
    const mask = tokenTable.toWritableMask(await this.#matcher.getNextTokenBitmask());
    if (this.#openString) tokenTable.lengthFilter.restrictMask(mask, this.#openString);
    return mask;
  }

  dispose(): void {
    this.#matcher.dispose();
  }

  async #acceptToken(id: number): Promise<void> {
    const { tokenTable } = this.#compiled;
    const isAllowed = !this.#openString || tokenTable.lengthFilter.allows(this.#openString, id);
    if (!isAllowed || !this.#matcher.acceptToken(id))
      throw new TokenRejectedError(`the grammar does not allow token ${id} here`);
    if (this.#lengths.length === 0) return;
    this.#accepted.push(id);
    if (this.#openString) this.#openString = tokenTable.lengthFilter.advance(this.#openString, id);
    // A mark follows a quote, and no token spans it.
    if (!this.#openString && tokenTable.endsInQuote(id)) await this.#enterCountedString();
  }

  /** Accepts a length mark if one must follow, and starts to count the characters of the string. */
  async #enterCountedString(): Promise<void> {
    const { tokenTable } = this.#compiled;
    const libraryMask = await this.#matcher.getNextTokenBitmask();
    const [mark, ...others] = tokenTable.listAllowedMarks(libraryMask, this.#lengths.length);
    if (mark === undefined) return;
    if (others.length > 0 || tokenTable.toWritableMask(libraryMask).some((word) => word !== 0)) {
      await this.#switchToExactGrammar();
      return;
    }
    if (!this.#matcher.acceptToken(tokenTable.rowOfMark(mark)))
      throw new Error('the matcher rejects a length mark that its mask allows');
    this.#openString = { lengths: this.#lengths[mark] as LengthBounds, writtenCharacters: 0, position: 0 };
  }

  /** Switches to the grammar without marks, because the same quote may start strings with different bounds. */
  async #switchToExactGrammar(): Promise<void> {
    const { library, exactGrammar } = {
      library: this.#compiled.library,
      exactGrammar: await this.#compiled.exactGrammar(),
    };
    const matcher = await library.GrammarMatcher.createGrammarMatcher(exactGrammar);
    this.#matcher.dispose();
    this.#matcher = matcher;
    this.#lengths = [];
    for (const id of this.#accepted.splice(0)) await this.#acceptToken(id);
  }
}
