import { Merger, type Pairs, PairTable } from './merge.ts';
import type { TextModel } from './text-model.ts';
import { isSpecial, tokenType, type Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';

const space = '▁';
const spaceUnit = space.charCodeAt(0);
/** Pairs remembered before the table starts again: at most about 24 MB. */
const pairCapacity = (vocabSize: number) => Math.min(2 ** 20, vocabSize * 32);

/**
 * SentencePiece's BPE (`tokenizer.ggml.model` 'llama'): characters joined where the result is a token, the best
 * score first; a character that no token has is written as `<0xNN>` bytes.
 */
export class SentencePieceModel implements TextModel {
  readonly #vocabulary: Vocabulary;
  readonly #spacePrefix: boolean;
  readonly #pairs: ScoredPairs;
  readonly #merger: Merger;
  readonly #cache = new WordCache();
  readonly #byteIds: readonly (number | undefined)[];
  /** Characters without a token, as the ids of their bytes. */
  readonly #spelled = new Map<number, readonly number[]>();
  /** Code units that some token has right before a space: only there may a token reach over a word's end. */
  readonly #joinsSpace: ReadonlySet<number>;
  #work = new Int32Array(256);

  /** @param spacePrefix whether a text begins with a space of its own (`add_space_prefix`) */
  constructor(vocabulary: Vocabulary, spacePrefix: boolean) {
    this.#vocabulary = vocabulary;
    this.#spacePrefix = spacePrefix;
    this.#pairs = new ScoredPairs(vocabulary);
    this.#merger = new Merger(this.#pairs);
    this.#byteIds = Array.from({ length: 256 }, (_, byte) => {
      const hex = byte.toString(16).toUpperCase().padStart(2, '0');
      return vocabulary.ids.get(`<0x${hex}>`) ?? vocabulary.unknownId;
    });
    this.#joinsSpace = unitsBeforeSpace(vocabulary.tokens);
  }

  encode(text: string, start: boolean, ids: number[]): void {
    // Not `space + text.replace(...)`: that would be a rope, and V8 flattens a long rope again for every search in it.
    const escaped = ((start && this.#spacePrefix ? ' ' : '') + text).replace(/ /g, space);
    let from = 0;
    while (from < escaped.length) {
      const end = this.#wordEnd(escaped, from);
      const word = escaped.slice(from, end);
      from = end;
      const known = this.#cache.get(word);
      if (known) {
        for (const id of known) ids.push(id);
        continue;
      }
      const first = ids.length;
      this.#encodeWord(word, ids);
      this.#cache.keep(word, ids, first);
    }
  }

  /** The next place that no token reaches over: before a space that nothing joins to what precedes it. */
  #wordEnd(text: string, from: number): number {
    for (let at = text.indexOf(space, from + 1); at >= 0; at = text.indexOf(space, at + 1)) {
      const before = text.charCodeAt(at - 1);
      if (before !== spaceUnit && !this.#joinsSpace.has(before)) return at;
    }
    return text.length;
  }

  #encodeWord(word: string, ids: number[]): void {
    if (this.#work.length < word.length) this.#work = new Int32Array(word.length);
    const work = this.#work;
    let length = 0;
    for (const char of word) work[length++] = this.#pairs.symbolOf(char);
    const count = this.#merger.merge(work, length);
    for (let i = 0; i < count; i++) {
      const symbol = work[i] as number;
      if (symbol < this.#vocabulary.tokens.length) ids.push(symbol);
      else for (const id of this.#byteIdsOf(symbol)) ids.push(id);
    }
    // One huge word must not hold its memory for good.
    if (this.#work.length > 2 ** 20) this.#work = new Int32Array(256);
  }

  #byteIdsOf(symbol: number): readonly number[] {
    let ids = this.#spelled.get(symbol);
    if (!ids) {
      const bytes = new TextEncoder().encode(this.#pairs.textOf(symbol));
      ids = [...bytes].map((byte) => this.#byteIds[byte]).filter((id) => id !== undefined);
      this.#spelled.set(symbol, ids);
    }
    return ids;
  }

  bytes(id: number): Uint8Array {
    const text = this.#vocabulary.tokens[id] as string;
    const type = this.#vocabulary.types[id];
    if (type === tokenType.byte) {
      const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(text)?.[1];
      if (byte) return Uint8Array.of(Number.parseInt(byte, 16));
    }
    return new TextEncoder().encode(type === tokenType.userDefined ? text : text.replaceAll(space, ' '));
  }
}

/** Finds out which pairs join when they first meet: a vocabulary has no list of them. */
class ScoredPairs implements Pairs {
  readonly #vocabulary: Vocabulary;
  /** By token: 0 for the best score; -1 for what text never becomes. */
  readonly #ranks: Int32Array;
  readonly #table: PairTable;
  readonly #unknown = new Map<string, number>();
  readonly #unknownChars: string[] = [];

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
    this.#ranks = ranksByScore(vocabulary);
    this.#table = new PairTable(pairCapacity(vocabulary.tokens.length));
  }

  /** The token of a character, or a number beyond the vocabulary. */
  symbolOf(char: string): number {
    const id = this.#tokenOf(char) ?? this.#unknown.get(char);
    if (id !== undefined) return id;
    const symbol = this.#vocabulary.tokens.length + this.#unknownChars.length;
    this.#unknown.set(char, symbol);
    this.#unknownChars.push(char);
    return symbol;
  }

  textOf(symbol: number): string {
    return (this.#vocabulary.tokens[symbol] ??
      this.#unknownChars[symbol - this.#vocabulary.tokens.length]) as string;
  }

  rankOf(left: number, right: number): number {
    return this.#table.rank[this.#entry(left, right)] as number;
  }

  mergedOf(left: number, right: number): number {
    return this.#table.merged[this.#entry(left, right)] as number;
  }

  #entry(left: number, right: number): number {
    const found = this.#table.find(left, right);
    if (found >= 0) return found;
    if (this.#table.full) this.#table.clear();
    const id = this.#tokenOf(this.textOf(left) + this.textOf(right));
    return this.#table.add(left, right, id === undefined ? -1 : (this.#ranks[id] as number), id ?? 0);
  }

  /** A text is never a control or byte token, even where it is written like one. */
  #tokenOf(text: string): number | undefined {
    const id = this.#vocabulary.ids.get(text);
    return id !== undefined && (this.#ranks[id] as number) >= 0 ? id : undefined;
  }
}

function ranksByScore(vocabulary: Vocabulary): Int32Array {
  const { types, scores } = vocabulary;
  const ranks = new Int32Array(types.length).fill(-1);
  const order: number[] = [];
  types.forEach((type, id) => {
    if (!isSpecial(type) && type !== tokenType.byte) order.push(id);
  });
  order.sort((a, b) => (scores[b] as number) - (scores[a] as number));
  let rank = 0;
  order.forEach((id, at) => {
    // Equal scores share a rank: the leftmost pair then goes first.
    if (at > 0 && scores[id] !== scores[order[at - 1] as number]) rank++;
    ranks[id] = rank;
  });
  return ranks;
}

function unitsBeforeSpace(tokens: readonly string[]): ReadonlySet<number> {
  const units = new Set<number>();
  for (const token of tokens) {
    for (let at = token.indexOf(space, 1); at >= 0; at = token.indexOf(space, at + 1)) {
      const before = token.charCodeAt(at - 1);
      if (before !== spaceUnit) units.add(before);
    }
  }
  return units;
}
