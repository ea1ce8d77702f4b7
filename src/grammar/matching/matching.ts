import type * as XGrammar from '@mlc-ai/web-xgrammar';
import { errorMessage } from '../../util/error-message.ts';
import { GrammarError } from '../types.ts';
import { Compiled, Matcher, TokenRefused } from './matcher.ts';
import type { Failure, Question, Vocabulary } from './messages.ts';
import { Tokens } from './tokens.ts';

/** The exports of `@mlc-ai/web-xgrammar`. */
export type Library = typeof XGrammar;

/** Token tables, for different sets of visible tokens, that are kept without a grammar. */
const mostVocabularies = 4;

/** Compiles grammars and matches tokens with the XGrammar library. Owns and frees the library's objects. */
export class Matching {
  readonly #library: Library;
  readonly #memory: () => number;
  readonly #tokens = new Map<string, Tokens>();
  readonly #grammars = new Map<number, Compiled>();
  readonly #matchers = new Map<number, Matcher>();
  #vocabulary: Vocabulary | undefined;

  /** @param memory returns the bytes that the library uses */
  constructor(library: Library, memory: () => number) {
    this.#library = library;
    this.#memory = memory;
  }

  async answer(question: Question): Promise<Uint32Array | number | undefined> {
    switch (question.kind) {
      case 'vocabulary':
        this.#vocabulary = question.vocabulary;
        return undefined;
      case 'compile': {
        const tokens = await this.#tokensWith(question.visible);
        this.#grammars.set(question.grammar, await Compiled.of(this.#library, tokens, question.source));
        return this.#memory();
      }
      case 'forget':
        this.#grammars.get(question.grammar)?.dispose();
        this.#grammars.delete(question.grammar);
        return undefined;
      case 'start': {
        const compiled = this.#grammars.get(question.grammar);
        if (!compiled) throw new Error(`there is no grammar ${question.grammar}`);
        const matcher = await Matcher.of(compiled);
        this.#matchers.set(question.matcher, matcher);
        await matcher.accept(question.accepted);
        return undefined;
      }
      case 'next': {
        const matcher = this.#matchers.get(question.matcher);
        if (!matcher) throw new Error(`there is no matcher ${question.matcher}`);
        await matcher.accept(question.accepted);
        return await matcher.mask();
      }
      case 'stop':
        this.#matchers.get(question.matcher)?.dispose();
        this.#matchers.delete(question.matcher);
        return undefined;
    }
  }

  async #tokensWith(visible: readonly (readonly [id: number, text: string])[]): Promise<Tokens> {
    const key = JSON.stringify(visible);
    const known = this.#tokens.get(key);
    if (known) {
      // Move it to the end: the map is in order of use.
      this.#tokens.delete(key);
      this.#tokens.set(key, known);
      return known;
    }
    for (const [other, tokens] of this.#tokens) {
      if (this.#tokens.size < mostVocabularies) break;
      if (tokens.grammars > 0) continue;
      this.#tokens.delete(other);
      tokens.dispose();
    }
    if (!this.#vocabulary) throw new Error('there is no vocabulary yet');
    const made = await Tokens.open(this.#library, this.#vocabulary, visible);
    this.#tokens.set(key, made);
    return made;
  }
}

export function failureOf(error: unknown): Failure {
  if (error instanceof GrammarError)
    return { kind: 'refused', code: error.code, message: error.message, path: error.path };
  if (error instanceof TokenRefused) return { kind: 'token', message: error.message };
  return { kind: 'broken', message: errorMessage(error) };
}
