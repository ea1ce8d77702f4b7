import type { Column, Operator, ShownResult, Surface } from '../types.ts';
import type { AggregateName, BucketName, ObserveQuery } from './shape.ts';
import type { Value } from './values.ts';

/** What a column of an answer, or of its order, is made of. */
export interface Answered extends ShownResult {
  /** Never null. */
  readonly required: boolean;
  readonly of:
    | { readonly kind: 'column'; readonly column: Column; readonly bucket?: BucketName }
    | { readonly kind: 'aggregate'; readonly fn: AggregateName; readonly column?: Column };
}

export interface CheckedCondition {
  readonly column: Column;
  readonly op: Operator;
  /** Of `is_null`: 0 or 1. */
  readonly values: readonly Value[];
}

/** A query that can be answered. */
export interface CheckedQuery {
  /** As it came. */
  readonly query: ObserveQuery;
  readonly surface: Surface;
  /** Whether its rows are groups. */
  readonly grouped: boolean;
  readonly columns: readonly Answered[];
  readonly where: readonly CheckedCondition[];
  /** No two rows have all of it in common. */
  readonly order: readonly Order[];
  readonly limit: number;
  /** Where the page before ended: what it is ordered by. */
  readonly after?: readonly Carried[];
  /** Of the page before, and so of this one: what is relative to now is relative to it. */
  readonly asOf?: Date;
  /** Of all but the page. */
  readonly digest: string;
}

export interface Order {
  readonly by: Answered;
  readonly descending: boolean;
}

/** A value as a cursor carries it: whole numbers beyond 2^53 and all others that are not whole are texts. */
export type Carried = string | number | null;
