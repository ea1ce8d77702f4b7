import type { ReadableRack, Reader } from './types.ts';

/** What a query is answered with. */
export interface Means {
  readonly reader: Reader;
  readonly now: Date;
  /** For all of its statements together. */
  readonly budgetMs: number;
  /** Of the surface `transcript`. */
  readonly racks: readonly ReadableRack[];
}
