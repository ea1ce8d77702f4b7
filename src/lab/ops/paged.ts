/** Token table of a step and the paged cache that it reads or writes, in the layout of the contracts. */
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { randomBetween, requireMember, requireWords } from './case-generation.ts';
import type { Random } from './random.ts';
import type { ParityCase } from '../types.ts';

/** Consecutive tokens of one sequence. */
export interface TokenRun {
  /** Position of the first token. */
  readonly first: number;
  readonly count: number;
}

/** Number of unused pages. With small pages, enough that page indices need more than 8 bits. */
const unusedPages = (rowElements: number): number => (rowElements <= 8 ? 300 : 3);

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
  }: { spareRows?: number; maxPages?: number | undefined; rowElements: number },
): PageAssignment {
  const positions = Math.max(...runs.map(({ first, count }) => first + count));
  const maxRunPages = Math.ceil(positions / pageTokens);
  const maxPages = Math.max(maxRunPages, requestedMaxPages ?? maxRunPages + randomBetween(random, 0, 2));
  const slots = random.permutation(runs.length + randomBetween(random, 1, 3));
  const needed = runs.map(({ first, count }) => Math.ceil((first + count) / pageTokens));
  const pages = needed.reduce((sum, count) => sum + count, unusedPages(rowElements));
  const free = random.permutation(pages);
  // Unused entries contain pages of other sequences, as in a page table that was used before.
  const pageTable = Uint32Array.from({ length: slots.length * maxPages }, () => random.integerBelow(pages));
  const tokens = runs.reduce((sum, { count }) => sum + count, 0);
  const token = random.words((tokens + spareRows) * 4);
  let row = 0;
  let nextFree = 0;
  for (const [index, { first, count }] of runs.entries()) {
    const slot = slots[index] as number;
    for (let page = 0; page < (needed[index] as number); page++) {
      pageTable[slot * maxPages + page] = free[nextFree++] as number;
    }
    for (let i = 0; i < count; i++) token.set([random.u32(), first + i, slot], row++ * 4);
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
