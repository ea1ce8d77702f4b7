/** Tokens of a step and the paged cache that they read or write, as the contracts lay them out. */
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { between, member, words } from './draws.ts';
import type { Random } from './random.ts';
import type { ParityCase } from '../types.ts';

/** Consecutive tokens of one sequence. */
export interface Run {
  /** Position of the first. */
  readonly first: number;
  readonly count: number;
}

/** Pages that belong to nobody; where they are small, enough for numbers of more than 8 bits. */
const strayPages = (rowElements: number): number => (rowElements <= 8 ? 300 : 3);

export interface Placement {
  /** [tokens + spare, 4] */
  readonly token: Uint32Array<ArrayBuffer>;
  /** [slots, maxPages] */
  readonly pageTable: Uint32Array<ArrayBuffer>;
  readonly maxPages: number;
  readonly pages: number;
  /** Positions that a table of angles must have. */
  readonly positions: number;
}

/**
 * A slot for each run, in random order among some that are idle; pages anywhere in the cache.
 * @param rowElements of one position: all key heads
 */
export function place(
  random: Random,
  runs: readonly Run[],
  {
    spare = 0,
    maxPages: asked,
    rowElements,
  }: { spare?: number; maxPages?: number | undefined; rowElements: number },
): Placement {
  const positions = Math.max(...runs.map(({ first, count }) => first + count));
  const longest = Math.ceil(positions / pageTokens);
  const maxPages = Math.max(longest, asked ?? longest + between(random, 0, 2));
  const slots = random.permutation(runs.length + between(random, 1, 3));
  const needed = runs.map(({ first, count }) => Math.ceil((first + count) / pageTokens));
  const pages = needed.reduce((sum, count) => sum + count, strayPages(rowElements));
  const free = random.permutation(pages);
  // What no sequence has reached yet names pages of others, as a page table does that was used before.
  const pageTable = Uint32Array.from({ length: slots.length * maxPages }, () => random.below(pages));
  const tokens = runs.reduce((sum, { count }) => sum + count, 0);
  const token = random.words((tokens + spare) * 4);
  let row = 0;
  let taken = 0;
  for (const [index, { first, count }] of runs.entries()) {
    const slot = slots[index] as number;
    for (let page = 0; page < (needed[index] as number); page++) {
      pageTable[slot * maxPages + page] = free[taken++] as number;
    }
    for (let i = 0; i < count; i++) token.set([random.u32(), first + i, slot], row++ * 4);
  }
  return { token, pageTable, maxPages, pages, positions };
}

/** Random halves of a normal distribution, two a word. */
export function halfNormals(random: Random, count: number, scale = 1): Uint32Array<ArrayBuffer> {
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

/** Where a case's tokens stand in its cache. */
export class PagedPlaces {
  readonly #token: Uint32Array;
  readonly #pageTable: Uint32Array;
  readonly #params: ParityCase['params'];

  constructor({ tensors, params }: Pick<ParityCase, 'tensors' | 'params'>) {
    this.#token = words(tensors, 'token');
    this.#pageTable = words(tensors, 'page_table');
    this.#params = params;
  }

  position(t: number): number {
    return this.#token[t * 4 + 1] as number;
  }

  slot(t: number): number {
    return this.#token[t * 4 + 2] as number;
  }

  /** Index of a row of head_dim elements: that of a key head at a position of a slot. */
  row(slot: number, position: number, kvHead: number): number {
    const page = member(this.#params, 'page');
    const number = this.#pageTable[slot * member(this.#params, 'max_pages') + Math.floor(position / page)];
    return ((number as number) * member(this.#params, 'kv_heads') + kvHead) * page + (position % page);
  }
}
