import type { XGrammarLibrary } from '../../src/grammar/index.ts';
import { CompiledSource, TokenMatcher } from '../../src/grammar/matching/matcher.ts';
import { TokenTable } from '../../src/grammar/matching/token-table.ts';
import type { GrammarSource } from '../../src/grammar/types.ts';
import { loadGrammarLibrary } from '../../src/platform/node-grammar-library.ts';

const end = 256;
const closing = new Set(Array.from('"]}', (character) => character.charCodeAt(0)));
const opening = new Set(Array.from('[{,', (character) => character.charCodeAt(0)));

/** Grammars over a vocabulary of bytes, in this process: to see what a source lets through. */
export class ByteGrammars {
  readonly #library: XGrammarLibrary;
  readonly #tokens: TokenTable;

  private constructor(library: XGrammarLibrary, tokens: TokenTable) {
    this.#library = library;
    this.#tokens = tokens;
  }

  static async open(): Promise<ByteGrammars> {
    const library = await loadGrammarLibrary();
    const tokens = await TokenTable.create(
      library,
      {
        bytes: Uint8Array.from({ length: 256 }, (_, byte) => byte),
        ends: Uint32Array.from({ length: 256 }, (_, byte) => byte + 1),
        size: 257,
        endIds: [end],
      },
      [],
    );
    return new ByteGrammars(library, tokens);
  }

  /** @throws GrammarError */
  async compile(source: GrammarSource): Promise<ByteGrammar> {
    return new ByteGrammar(await CompiledSource.compile(this.#library, this.#tokens, source));
  }
}

export class ByteGrammar {
  readonly #grammar: CompiledSource;

  constructor(grammar: CompiledSource) {
    this.#grammar = grammar;
  }

  /** `whole`: an answer; `part`: the beginning of one. */
  async reads(text: string): Promise<'whole' | 'part' | 'no'> {
    const matcher = await TokenMatcher.create(this.#grammar);
    try {
      for (const byte of new TextEncoder().encode(text)) {
        if (!allows(await matcher.mask(), byte)) return 'no';
        await matcher.accept([byte]);
      }
      return allows(await matcher.mask(), end) ? 'whole' : 'part';
    } finally {
      matcher.dispose();
    }
  }

  /** A random text that the masks allow, with a bent for its end; undefined where it does not come to one. */
  async walk(random: () => number, maxBytes = 3000): Promise<string | undefined> {
    const matcher = await TokenMatcher.create(this.#grammar);
    try {
      const bytes: number[] = [];
      while (bytes.length < maxBytes) {
        const mask = await matcher.mask();
        const allowed: number[] = [];
        for (let byte = 0; byte <= end; byte++) if (allows(mask, byte)) allowed.push(byte);
        if (allowed.length === 0)
          throw new Error(
            `a dead end after ${JSON.stringify(new TextDecoder().decode(new Uint8Array(bytes)))}`,
          );
        const next = choose(allowed, random, bytes.length);
        if (next === end)
          return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes));
        await matcher.accept([next]);
        bytes.push(next);
      }
      return undefined;
    } finally {
      matcher.dispose();
    }
  }

  dispose(): void {
    this.#grammar.dispose();
  }
}

const allows = (mask: Uint32Array, id: number): boolean => (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1;

function choose(allowed: readonly number[], random: () => number, length: number): number {
  const late = length > 150;
  if (allowed.includes(end) && random() < (late ? 1 : 0.6)) return end;
  const closers = allowed.filter((one) => closing.has(one));
  if (closers.length > 0 && random() < (late ? 0.97 : 0.35)) return pick(closers, random);
  const calm = late ? allowed.filter((one) => !opening.has(one) && one !== end) : allowed;
  return pick(calm.length > 0 ? calm : allowed, random);
}

const pick = (list: readonly number[], random: () => number): number =>
  list[Math.floor(random() * list.length)] as number;

/** The same numbers for the same seed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
