import type { ObserveErrorKind } from '../errors.ts';
import type { ReadableRack } from '../types.ts';

/** What the thread is started with. */
export interface ThreadData {
  /** Of the main database; null where only racks are read. */
  readonly path: string | null;
  /** Nothing is made or mended beside a file, for what that costs: nobody else may be there who coordinates with readers. */
  readonly untouched: boolean;
}

export interface Question {
  readonly sql: string;
  readonly parameters: readonly (string | number | null)[];
  readonly racks: readonly ReadableRack[];
  readonly budgetMs: number;
}

export type Reply =
  | { readonly ready: true }
  | { readonly rows: Record<string, unknown>[] }
  | {
      readonly failure: { readonly kind: ObserveErrorKind; readonly code: string; readonly message: string };
    };
