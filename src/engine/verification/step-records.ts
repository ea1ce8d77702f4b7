/** Reads the records of a step that the GPU was given. */
import { secondSegmentFlag } from '../../../kernels/position-embed.ts';
import { singleTileFlag } from '../../../kernels/rope-kv-write.ts';
import { sampleWords } from '../../../kernels/sample.ts';
import type { StepDims } from '../../../kernels/define.ts';
import type { StepInput, StepLayout } from '../execution/step.ts';

export interface TokenRecord {
  readonly id: number;
  readonly position: number;
  readonly slot: number;
  readonly hasOwnTile: boolean;
  /** Part of the second segment of a pair. */
  readonly isSecondSegment: boolean;
}

/** Consecutive tokens of one sequence: first row, number, slot, position of the first. */
export interface TileRecord {
  readonly row: number;
  readonly count: number;
  readonly slot: number;
  readonly position: number;
}

export class StepRecords {
  readonly dims: StepDims;
  readonly #words: Uint32Array;
  readonly #layout: StepLayout;

  readonly #pages: ReadonlyMap<number, readonly number[]>;

  /** @param pages of each slot's sequence, by position */
  constructor(step: StepInput, pages: ReadonlyMap<number, readonly number[]>) {
    this.#pages = pages;
    this.dims = { ...step.dims };
    this.#words = step.bytes().slice();
    this.#layout = step.layout;
  }

  #four(area: number, index: number): [number, number, number, number] {
    const at = area / 4 + index * 4;
    return [...this.#words.subarray(at, at + 4)] as [number, number, number, number];
  }

  token(row: number): TokenRecord {
    const [id, position, slot, flags] = this.#four(this.#layout.tokens, row);
    return {
      id,
      position,
      slot,
      hasOwnTile: flags === singleTileFlag,
      isSecondSegment: (flags & secondSegmentFlag) !== 0,
    };
  }

  /** Page of the cache with the positions from `index * pageTokens` on. */
  page(slot: number, index: number): number {
    return this.#pages.get(slot)?.[index] ?? 0;
  }

  /** Row and position of a sample. */
  sample(index: number): { row: number; position: number } {
    const at = this.#layout.samples / 4 + index * sampleWords;
    return { row: this.#words[at] as number, position: this.#words[at + 4] as number };
  }

  tile(kind: 'singleTiles' | 'splitTiles' | 'wideTiles' | 'spans', index: number): TileRecord {
    const [row, count, slot, position] = this.#four(this.#layout[kind], index);
    return { row, count, slot, position };
  }
}
