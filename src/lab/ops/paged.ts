/** Token table of a step and the paged cache that it reads or writes, in the layout of the contracts. */
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { randomBetween, requireMember, requireWords } from './case-generation.ts';
import type { Random } from './random.ts';
import type { Dims, ParityCase } from '../types.ts';

/** Consecutive tokens of one sequence. */
export interface TokenRun {
  /** Position of the first token. */
  readonly first: number;
  readonly count: number;
  /** Number of pages at the start of the sequence that are those of the step's longest sequence, as in a prefix cache. */
  readonly sharedPages?: number;
}

/** Runs of one token each. */
export const singleTokenRuns = (...positions: readonly number[]): TokenRun[] =>
  positions.map((first) => ({ first, count: 1 }));

/** The last tokens of a sequence of `context` positions. */
export const lastTokens = (dims: Dims): TokenRun[] => {
  const count = requireMember(dims, 'tokens');
  return [{ first: Math.max(0, (dims['context'] ?? count) - count), count }];
};

/**
 * Runs of one token each, of which all but the first few share pages with the longest sequence up to near their position: a cache
 * with all pages of many long sequences would take too much memory.
 */
export const farRuns = (random: Random, positions: readonly number[]): TokenRun[] =>
  positions.map((first, index) => ({
    first,
    count: 1,
    sharedPages: index < 2 ? 0 : Math.max(0, Math.floor(first / pageTokens) - random.integerBelow(3)),
  }));

/** Id in the record of a token that was sampled on the GPU and that the host does not know yet. */
export const pendingId = 0xffffffff;

/**
 * Ids in the records of a step: `mixed` has random, pending, repeated and zero ids. Ops that do not read ids must not depend on
 * them.
 */
export type IdPattern = 'mixed' | 'pending' | 'equal' | 'zero' | 'random';
const idPatterns: readonly IdPattern[] = ['mixed', 'pending', 'equal', 'zero', 'random'];

/** The patterns in random order, again and again: five cases in a row have each of them. */
export function idPatternCycle(random: Random): (index: number) => IdPattern {
  const order = random.permutation(idPatterns.length);
  return (index) => idPatterns[order[index % order.length] as number] as IdPattern;
}

function makeIds(random: Random, pattern: IdPattern, count: number): number[] {
  const equalId = { pending: pendingId, equal: 1 + random.integerBelow(50_000), zero: 0 }[pattern as string];
  if (equalId !== undefined) return Array.from({ length: count }, () => equalId);
  const ids: number[] = [];
  for (let row = 0; row < count; row++) {
    const others = [pendingId, 0, ids.at(-1), ids[0]];
    const chosen = pattern === 'mixed' ? others[random.integerBelow(others.length + 1)] : undefined;
    ids.push(chosen ?? random.integerBelow(50_000));
  }
  return ids;
}

/** With a cache of few bytes in a page, there are so many unused pages that page indices need more than 8 bits. */
const manyUnusedPages = 300;
const fewUnusedPages = 3;
/** Maximum number of elements in many unused pages: filling and uploading more takes too long. */
const maxUnusedElements = 640_000;

/** Page indices are taken from these ranges in turn, so that steps of few pages have large ones too. */
const pageRanges = [0, 128, 256, 2048] as const;

function interleavedPages(random: Random, pages: number): number[] {
  const buckets: number[][] = pageRanges.map(() => []);
  for (const page of random.permutation(pages))
    buckets[pageRanges.findLastIndex((low) => page >= low)]?.push(page);
  const filled = buckets.filter(({ length }) => length > 0);
  const start = random.integerBelow(filled.length);
  const order: number[] = [];
  for (let turn = 0; order.length < pages; turn++) {
    const next = filled[(start + turn) % filled.length]?.pop();
    if (next !== undefined) order.push(next);
  }
  return order;
}

/** With so many pages, rows of the cache need more than 16 bits. */
export const pagesOfManyRows = Math.ceil(0x11000 / pageTokens);

export interface PageAssignment {
  /** [tokens + spare, 4] */
  readonly token: Uint32Array<ArrayBuffer>;
  /** [slots, maxPages] */
  readonly pageTable: Uint32Array<ArrayBuffer>;
  readonly maxPages: number;
  readonly pages: number;
  /** Number of positions that a rope table must have. */
  readonly positions: number;
}

/**
 * Assigns each run a random slot, among some idle slots, and random pages of the cache.
 * @param rowElements elements of one position in all key heads
 */
export function assignPages(
  random: Random,
  runs: readonly TokenRun[],
  {
    spareRows = 0,
    maxPages: requestedMaxPages,
    rowElements,
    manyPages = rowElements <= 8,
    unusedPages,
    ids: idPattern,
  }: {
    spareRows?: number;
    maxPages?: number | undefined;
    rowElements: number;
    /** Whether page indices need more than 8 bits, if the cache is not too large for that. Default: in small caches. */
    manyPages?: boolean;
    /** Pages that are not used. Default: a few, or as many as `manyPages` needs. */
    unusedPages?: number | undefined;
    ids: IdPattern;
  },
): PageAssignment {
  const positions = Math.max(...runs.map(({ first, count }) => first + count));
  const maxRunPages = Math.ceil(positions / pageTokens);
  const maxPages = Math.max(maxRunPages, requestedMaxPages ?? maxRunPages + randomBetween(random, 0, 2));
  const slots = random.permutation(runs.length + randomBetween(random, 1, 3));
  const lengths = runs.map(({ first, count }) => Math.ceil((first + count) / pageTokens));
  const longest = lengths.indexOf(maxRunPages);
  const shared = runs.map(({ sharedPages = 0 }, index) => (index === longest ? 0 : sharedPages));
  const needed = lengths.map((length, index) => length - (shared[index] as number));
  const hasRoom = manyUnusedPages * rowElements * pageTokens <= maxUnusedElements;
  const unused = unusedPages ?? (manyPages && hasRoom ? manyUnusedPages : fewUnusedPages);
  const pages = needed.reduce((sum, count) => sum + count, unused);
  const free = interleavedPages(random, pages);
  // Unused entries contain pages of other sequences, as in a page table that was used before.
  const pageTable = Uint32Array.from({ length: slots.length * maxPages }, () => random.integerBelow(pages));
  const tokens = runs.reduce((sum, { count }) => sum + count, 0);
  const token = random.words((tokens + spareRows) * 4);
  const ids = makeIds(random, idPattern, tokens);
  let row = 0;
  let nextFree = 0;
  for (const [index, length] of lengths.entries()) {
    for (let page = shared[index] as number; page < length; page++)
      pageTable[(slots[index] as number) * maxPages + page] = free[nextFree++] as number;
  }
  for (const [index, { first, count }] of runs.entries()) {
    const slot = slots[index] as number;
    const from = (slots[longest] as number) * maxPages;
    pageTable.set(pageTable.subarray(from, from + (shared[index] as number)), slot * maxPages);
    for (let i = 0; i < count; i++) {
      token.set([ids[row] as number, first + i, slot], row * 4);
      row += 1;
    }
  }
  return { token, pageTable, maxPages, pages, positions };
}

/** Normally distributed f16 values, two in each word. */
export function randomHalves(random: Random, count: number, scale = 1): Uint32Array<ArrayBuffer> {
  const pool = new Uint16Array(Float16Array.from(random.normals(4096, scale)).buffer);
  const out = new Uint32Array(Math.ceil(count / 2));
  for (let i = 0; i < out.length; i++) {
    const bits = random.u32();
    out[i] = (pool[bits >>> 20] as number) | ((pool[bits & 4095] as number) << 16);
  }
  return out;
}

export const halvesOf = (packed: Uint32Array<ArrayBuffer>): Float16Array =>
  new Float16Array(packed.buffer, packed.byteOffset, packed.length * 2);

/** Maps the tokens of a case to rows of its paged cache. */
export class PagedCacheLayout {
  readonly #token: Uint32Array;
  readonly #pageTable: Uint32Array;
  readonly #params: ParityCase['params'];

  constructor({ tensors, params }: Pick<ParityCase, 'tensors' | 'params'>) {
    this.#token = requireWords(tensors, 'token');
    this.#pageTable = requireWords(tensors, 'page_table');
    this.#params = params;
  }

  position(t: number): number {
    return this.#token[t * 4 + 1] as number;
  }

  slot(t: number): number {
    return this.#token[t * 4 + 2] as number;
  }

  /** Index of the cache row (head_dim elements) of a key head at a position of a slot. */
  row(slot: number, position: number, kvHead: number): number {
    const page = requireMember(this.#params, 'page');
    const number =
      this.#pageTable[slot * requireMember(this.#params, 'max_pages') + Math.floor(position / page)];
    return ((number as number) * requireMember(this.#params, 'kv_heads') + kvHead) * page + (position % page);
  }
}
