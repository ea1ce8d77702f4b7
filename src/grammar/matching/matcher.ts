import type { CompiledGrammar, GrammarMatcher } from '@mlc-ai/web-xgrammar';
import { translate } from '../translate.ts';
import type { GrammarSource } from '../types.ts';
import type { Lengths } from '../ebnf/marks.ts';
import type { Library } from './matching.ts';
import type { OpenString } from './token-lengths.ts';
import type { Tokens } from './tokens.ts';

/** A token that the grammar does not allow at its position. */
export class TokenRefused extends Error {}

/** A grammar that is compiled for a token table. */
export class Compiled {
  readonly library: Library;
  readonly tokens: Tokens;
  readonly counted: CompiledGrammar;
  readonly lengths: readonly Lengths[];
  readonly #source: GrammarSource;
  #exact: CompiledGrammar | undefined;

  private constructor(
    library: Library,
    tokens: Tokens,
    source: GrammarSource,
    counted: CompiledGrammar,
    lengths: readonly Lengths[],
  ) {
    this.library = library;
    this.tokens = tokens;
    this.#source = source;
    this.counted = counted;
    this.lengths = lengths;
    tokens.grammars++;
  }

  /** @throws GrammarError */
  static async of(library: Library, tokens: Tokens, source: GrammarSource): Promise<Compiled> {
    const { text, lengths } = translate(source, { counted: true });
    return new Compiled(library, tokens, source, await tokens.compiler.compileGrammar(text), lengths);
  }

  /** The same grammar without length marks, compiled on first use. */
  async exact(): Promise<CompiledGrammar> {
    this.#exact ??= await this.tokens.compiler.compileGrammar(
      translate(this.#source, { counted: false }).text,
    );
    return this.#exact;
  }

  dispose(): void {
    this.counted.dispose();
    this.#exact?.dispose();
    this.tokens.grammars--;
  }
}

/** The state of one answer in its grammar. */
export class Matcher {
  readonly #compiled: Compiled;
  #matcher: GrammarMatcher;
  /** Bounds of the length marks; empty once the grammar without marks is used. */
  #lengths: readonly Lengths[];
  readonly #accepted: number[] = [];
  #open: OpenString | undefined;

  private constructor(compiled: Compiled, matcher: GrammarMatcher) {
    this.#compiled = compiled;
    this.#matcher = matcher;
    this.#lengths = compiled.lengths;
  }

  static async of(compiled: Compiled): Promise<Matcher> {
    const { GrammarMatcher } = compiled.library;
    return new Matcher(compiled, await GrammarMatcher.createGrammarMatcher(compiled.counted));
  }

  /** @throws TokenRejectedError */
  async accept(ids: readonly number[]): Promise<void> {
    for (const id of ids) await this.#take(id);
  }

  async mask(): Promise<Uint32Array> {
    const { tokens } = this.#compiled;
    // The library aborts when it is asked for a mask after the end.
    if (this.#matcher.isTerminated()) return tokens.maskOf(tokens.endIds);
    const mask = tokens.writableOf(await this.#matcher.getNextTokenBitmask());
    if (this.#open) tokens.lengths.restrict(mask, this.#open);
    return mask;
  }

  dispose(): void {
    this.#matcher.dispose();
  }

  async #take(id: number): Promise<void> {
    const { tokens } = this.#compiled;
    const fits = !this.#open || tokens.lengths.fits(this.#open, id);
    if (!fits || !this.#matcher.acceptToken(id))
      throw new TokenRefused(`the grammar does not allow token ${id} here`);
    if (this.#lengths.length === 0) return;
    this.#accepted.push(id);
    if (this.#open) this.#open = tokens.lengths.after(this.#open, id);
    // A mark follows a quote, and no token spans it.
    if (!this.#open && tokens.endsInQuote(id)) await this.#passMark();
  }

  /** Accepts a length mark if one must follow, and starts to count the characters of the string. */
  async #passMark(): Promise<void> {
    const { tokens } = this.#compiled;
    const raw = await this.#matcher.getNextTokenBitmask();
    const [mark, ...others] = tokens.marksIn(raw, this.#lengths.length);
    if (mark === undefined) return;
    if (others.length > 0 || tokens.writableOf(raw).some((word) => word !== 0)) {
      await this.#leaveMarks();
      return;
    }
    if (!this.#matcher.acceptToken(tokens.markRow(mark)))
      throw new Error('the matcher rejects a length mark that its mask allows');
    this.#open = { lengths: this.#lengths[mark] as Lengths, written: 0, place: 0 };
  }

  /** Switches to the grammar without marks, because the same quote may start strings with different bounds. */
  async #leaveMarks(): Promise<void> {
    const { library, exact } = { library: this.#compiled.library, exact: await this.#compiled.exact() };
    const matcher = await library.GrammarMatcher.createGrammarMatcher(exact);
    this.#matcher.dispose();
    this.#matcher = matcher;
    this.#lengths = [];
    for (const id of this.#accepted.splice(0)) await this.#take(id);
  }
}
