import type * as XGrammar from '@mlc-ai/web-xgrammar';
import type { CompiledGrammar, GrammarCompiler, GrammarMatcher, TokenizerInfo } from '@mlc-ai/web-xgrammar';
import { byteToChar } from '../byte-alphabet.ts';
import { translate } from '../translate.ts';
import { GrammarError } from '../types.ts';
import type { Failure, Question, Vocabulary } from './messages.ts';

/** What `@mlc-ai/web-xgrammar` exports. */
export type Library = typeof XGrammar;

interface Compiler {
  readonly info: TokenizerInfo;
  readonly compiler: GrammarCompiler;
  /** Tokens that have a text, and those that end an answer: [ceil(size / 32)]. */
  readonly writable: Uint32Array;
  grammars: number;
}

interface Compiled {
  readonly grammar: CompiledGrammar;
  readonly from: Compiler;
}

/** Compilers for different sets of visible tokens that are kept without a grammar. */
const mostCompilers = 4;

class TokenRefused extends Error {}

/** Compiles grammars and matches tokens against them. What it makes, it frees. */
export class Matching {
  readonly #library: Library;
  readonly #memory: () => number;
  readonly #compilers = new Map<string, Compiler>();
  readonly #grammars = new Map<number, Compiled>();
  readonly #matchers = new Map<number, { matcher: GrammarMatcher; writable: Uint32Array }>();
  #vocabulary: Vocabulary | undefined;

  /** @param memory bytes that the library holds */
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
        const text = translate(question.source);
        const from = await this.#compiler(question.visible);
        this.#grammars.set(question.grammar, { grammar: await from.compiler.compileGrammar(text), from });
        from.grammars++;
        return this.#memory();
      }
      case 'forget': {
        const compiled = this.#grammars.get(question.grammar);
        if (!compiled) return undefined;
        this.#grammars.delete(question.grammar);
        compiled.grammar.dispose();
        compiled.from.grammars--;
        return undefined;
      }
      case 'start': {
        const compiled = this.#grammars.get(question.grammar);
        if (!compiled) throw new Error(`there is no grammar ${question.grammar}`);
        const matcher = await this.#library.GrammarMatcher.createGrammarMatcher(compiled.grammar);
        this.#matchers.set(question.matcher, { matcher, writable: compiled.from.writable });
        accept(matcher, question.accepted);
        return undefined;
      }
      case 'next': {
        const found = this.#matchers.get(question.matcher);
        if (!found) throw new Error(`there is no matcher ${question.matcher}`);
        accept(found.matcher, question.accepted);
        return await this.#mask(found.matcher, found.writable);
      }
      case 'stop':
        this.#matchers.get(question.matcher)?.matcher.dispose();
        this.#matchers.delete(question.matcher);
        return undefined;
    }
  }

  async #mask(matcher: GrammarMatcher, writable: Uint32Array): Promise<Uint32Array> {
    // The library aborts when it is asked for what follows an end.
    if (matcher.isTerminated()) return maskOf(this.#known().size, this.#known().endIds);
    const mask = Uint32Array.from(await matcher.getNextTokenBitmask());
    // Where all is allowed, it lets the rows pass that stand for no token.
    for (let word = 0; word < mask.length; word++)
      mask[word] = (mask[word] as number) & (writable[word] as number);
    return mask;
  }

  #known(): Vocabulary {
    if (!this.#vocabulary) throw new Error('there is no vocabulary yet');
    return this.#vocabulary;
  }

  async #compiler(visible: readonly (readonly [id: number, text: string])[]): Promise<Compiler> {
    const key = JSON.stringify(visible);
    const known = this.#compilers.get(key);
    if (known) {
      // The least recently used stands first.
      this.#compilers.delete(key);
      this.#compilers.set(key, known);
      return known;
    }
    for (const [other, { info, compiler, grammars }] of this.#compilers) {
      if (this.#compilers.size < mostCompilers) break;
      if (grammars > 0) continue;
      this.#compilers.delete(other);
      compiler.dispose();
      info.dispose();
    }
    const vocabulary = this.#known();
    const tokens = tokensOf(vocabulary);
    for (const [id, text] of visible) tokens[id] = visibleBytes(text);
    const { TokenizerInfo, GrammarCompiler } = this.#library;
    const info = await TokenizerInfo.createTokenizerInfo(tokens, 'byte_level', false, vocabulary.size, [
      ...vocabulary.endIds,
    ]);
    // Its own cache would grow without a bound.
    const compiler = await GrammarCompiler.createGrammarCompiler(info, false);
    const written = tokens.flatMap((token, id) => (token === '' ? [] : [id]));
    const writable = maskOf(vocabulary.size, [...written, ...vocabulary.endIds]);
    const made = { info, compiler, writable, grammars: 0 };
    this.#compilers.set(key, made);
    return made;
  }
}

function maskOf(size: number, ids: readonly number[]): Uint32Array {
  const mask = new Uint32Array(Math.ceil(size / 32));
  for (const id of ids) mask[id >> 5] = (mask[id >> 5] as number) | (1 << (id & 31));
  return mask;
}

function accept(matcher: GrammarMatcher, ids: readonly number[]): void {
  for (const id of ids) {
    if (!matcher.acceptToken(id)) throw new TokenRefused(`the grammar does not allow token ${id} here`);
  }
}

const visibleBytes = (text: string): string => alphabet(new TextEncoder().encode(text));
const alphabet = (bytes: Uint8Array): string => {
  let written = '';
  for (const byte of bytes) written += byteToChar[byte];
  return written;
};

/** Tokens as GPT-2's vocabularies write their bytes, which every byte has a character in. */
function tokensOf({ bytes, ends }: Vocabulary): string[] {
  const tokens: string[] = [];
  let start = 0;
  for (const end of ends) {
    tokens.push(alphabet(bytes.subarray(start, end)));
    start = end;
  }
  return tokens;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof GrammarError)
    return { kind: 'refused', code: error.code, message: error.message, path: error.path };
  if (error instanceof TokenRefused) return { kind: 'token', message: error.message };
  return { kind: 'broken', message: error instanceof Error ? error.message : String(error) };
}
