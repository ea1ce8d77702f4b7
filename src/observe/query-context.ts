import type { ReadableRack, Reader } from './types.ts';

/** Context in which a query runs. */
export interface QueryContext {
  readonly reader: Reader;
  readonly now: Date;
  /** Time budget of all statements of the query together. */
  readonly budgetMs: number;
  /** Racks to read, for the surface `transcript`. */
  readonly racks: readonly ReadableRack[];
}
