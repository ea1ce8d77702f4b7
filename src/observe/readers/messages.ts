import type { ObserveErrorKind } from '../errors.ts';
import type { ReadableRack } from '../types.ts';

/** Data that the thread gets at its start. */
export interface ReaderThreadData {
  /** Path of the main database; null if only racks are read. */
  readonly path: string | null;
  /** Do not create or repair side files. Only allowed if no other process uses the file. */
  readonly untouched: boolean;
}

export interface ReadRequest {
  readonly sql: string;
  readonly parameters: readonly (string | number | null)[];
  readonly racks: readonly ReadableRack[];
  readonly budgetMs: number;
}

export type ReadResponse =
  | { readonly ready: true }
  | { readonly rows: Record<string, unknown>[] }
  | {
      readonly failure: { readonly kind: ObserveErrorKind; readonly code: string; readonly message: string };
    };
