import type * as XGrammar from '@mlc-ai/web-xgrammar';
import { errorMessage } from '../../util/error-message.ts';
import { GrammarError } from '../types.ts';
import { CompiledSource, TokenMatcher, TokenRejectedError } from './matcher.ts';
import type { Failure, GrammarRequest, GrammarVocabulary } from './messages.ts';
import { TokenTable } from './token-table.ts';

/** The exports of `@mlc-ai/web-xgrammar`. */
export type XGrammarLibrary = typeof XGrammar;

/** Token tables, for different sets of visible tokens, that are kept without a grammar. */
const maxVocabularies = 4;

/** Compiles grammars and matches tokens with the XGrammar library. Owns and frees the library's objects. */
export class GrammarRuntime {
  readonly #library: XGrammarLibrary;
  readonly #getMemoryBytes: () => number;
  readonly #tokenTables = new Map<string, TokenTable>();
  readonly #grammars = new Map<number, CompiledSource>();
  readonly #matchers = new Map<number, TokenMatcher>();
  #vocabulary: GrammarVocabulary | undefined;

  /** @param memory returns the bytes that the library uses */
  constructor(library: XGrammarLibrary, getMemoryBytes: () => number) {
    this.#library = library;
    this.#getMemoryBytes = getMemoryBytes;
  }

  async handle(request: GrammarRequest): Promise<Uint32Array | number | undefined> {
    switch (request.kind) {
      case 'vocabulary':
        this.#vocabulary = request.vocabulary;
        return undefined;
      case 'compile': {
        const tokenTable = await this.#getTokenTable(request.visible);
        this.#grammars.set(
          request.grammar,
          await CompiledSource.compile(this.#library, tokenTable, request.source),
        );
        return this.#getMemoryBytes();
      }
      case 'forget':
        this.#grammars.get(request.grammar)?.dispose();
        this.#grammars.delete(request.grammar);
        return undefined;
      case 'start': {
        const compiled = this.#grammars.get(request.grammar);
        if (!compiled) throw new Error(`there is no grammar ${request.grammar}`);
        const matcher = await TokenMatcher.create(compiled);
        this.#matchers.set(request.matcher, matcher);
        await matcher.accept(request.accepted);
        return undefined;
      }
      case 'next': {
        const matcher = this.#matchers.get(request.matcher);
        if (!matcher) throw new Error(`there is no matcher ${request.matcher}`);
        await matcher.accept(request.accepted);
        return await matcher.mask();
      }
      case 'stop':
        this.#matchers.get(request.matcher)?.dispose();
        this.#matchers.delete(request.matcher);
        return undefined;
    }
  }

  async #getTokenTable(visible: readonly (readonly [id: number, text: string])[]): Promise<TokenTable> {
    const key = JSON.stringify(visible);
    const cached = this.#tokenTables.get(key);
    if (cached) {
      // Move it to the end: the map is in order of use.
      this.#tokenTables.delete(key);
      this.#tokenTables.set(key, cached);
      return cached;
    }
    for (const [other, tokenTable] of this.#tokenTables) {
      if (this.#tokenTables.size < maxVocabularies) break;
      if (tokenTable.grammarCount > 0) continue;
      this.#tokenTables.delete(other);
      tokenTable.dispose();
    }
    if (!this.#vocabulary) throw new Error('there is no vocabulary yet');
    const created = await TokenTable.create(this.#library, this.#vocabulary, visible);
    this.#tokenTables.set(key, created);
    return created;
  }
}

export function toFailure(error: unknown): Failure {
  if (error instanceof GrammarError)
    return { kind: 'refused', code: error.code, message: error.message, path: error.path };
  if (error instanceof TokenRejectedError) return { kind: 'token', message: error.message };
  return { kind: 'broken', message: errorMessage(error) };
}
