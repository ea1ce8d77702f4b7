import type { Column, Operator, ResultColumn, Surface } from '../types.ts';
import type { AggregateName, BucketName, ObserveQuery } from './shape.ts';
import type { Value } from './values.ts';

/** Column of a result, or of its order, with its source. */
export interface OutputColumn extends ResultColumn {
  /** Never null. */
  readonly required: boolean;
  readonly of:
    | { readonly kind: 'column'; readonly column: Column; readonly bucket?: BucketName }
    | { readonly kind: 'aggregate'; readonly fn: AggregateName; readonly column?: Column };
}

export interface CheckedCondition {
  readonly column: Column;
  readonly op: Operator;
  /** For `is_null`: 0 or 1. */
  readonly values: readonly Value[];
}

/** A validated query with resolved names. */
export interface CheckedQuery {
  /** The query as received. */
  readonly query: ObserveQuery;
  readonly surface: Surface;
  /** Whether its rows are groups. */
  readonly grouped: boolean;
  readonly columns: readonly OutputColumn[];
  readonly where: readonly CheckedCondition[];
  /** Unique for every row. */
  readonly order: readonly Order[];
  readonly limit: number;
  /** Values of `order` in the last row of the previous page. */
  readonly after?: readonly CursorValue[];
  /** Time of the first page, the base of relative times on every page. */
  readonly asOf?: Date;
  /** Hash of the query without cursor and limit. */
  readonly digest: string;
}

export interface Order {
  readonly by: OutputColumn;
  readonly descending: boolean;
}

/** Value in a cursor. Integers beyond 2^53 and non-integer numbers are strings. */
export type CursorValue = string | number | null;
