import type { RackId } from '../tracing/index.ts';

export type ColumnType = 'text' | 'integer' | 'number' | 'time' | 'flag' | 'json';

/**
 * Origin of a column's values. `measured`: measured by this host. `claimed`: reported by another party. `derived`:
 * computed or recorded by the host.
 */
export type Provenance = 'measured' | 'claimed' | 'derived';

export type Operator =
  | 'eq'
  | 'ne'
  | 'lt'
  | 'lte'
  | 'gt'
  | 'gte'
  | 'in'
  | 'not_in'
  | 'contains'
  | 'starts_with'
  | 'is_null';

/** SQL in both dialects; one text if they are the same. */
export type Sql = string | { readonly sqlite: string; readonly postgres: string };

/** Column declaration of a surface. Its SQL never contains input of a caller. */
export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** `ms`, `tokens`, `tokens/s`, `bytes`, `nanousd`, ... */
  readonly unit?: string;
  readonly provenance: Provenance;
  readonly description: string;
  /** Default: the column of the same name in the surface's source. */
  readonly sql?: Sql;
  /** Never null. */
  readonly required?: true;
  /** Can be selected, but not searched, grouped by or ordered by (long texts). */
  readonly readOnly?: true;
}

export interface Surface {
  readonly name: string;
  readonly description: string;
  readonly columns: readonly Column[];
  /** Columns that identify a row, in the order that breaks ties. */
  readonly key: readonly string[];
  /** Time column of coverage and of the default order, newest first. */
  readonly time: string;
  /** SQL after `from` with its tables, or `racks`: the rack histories, one file each. */
  readonly source: { readonly from: Sql; readonly tables: readonly string[] } | 'racks';
}

/** Description of a column in the schema of a surface. */
export interface ColumnDescription {
  readonly name: string;
  readonly type: ColumnType;
  readonly unit?: string;
  readonly provenance: Provenance;
  readonly nullable: boolean;
  readonly description: string;
  readonly operators: readonly Operator[];
  readonly aggregates: readonly string[];
  readonly buckets?: readonly string[];
}

/** A compiled query. The SQL has only names and expressions of surfaces; input of the caller is in parameters. */
export interface CompiledQuery {
  readonly sql: string;
  readonly parameters: readonly (string | number | null)[];
  readonly columns: readonly ResultColumn[];
}

/** Column of a response. */
export interface ResultColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly unit?: string;
  readonly provenance: Provenance;
}

/** A rack history that a caller can read. */
export interface ReadableRack {
  readonly rack: RackId;
  /** Path of the SQLite file. */
  readonly path: string;
  /** Only events with a greater `seq`; absent: all. */
  readonly after?: number;
}

/** Runs read-only statements with a time limit. */
export interface Reader {
  readonly kind: 'sqlite' | 'postgres';
  /**
   * @param racks history files to attach for the statement, each under its rack's name
   * @returns rows as objects; integers beyond 2^53 as strings
   * @throws ObserveError over_budget, unreadable
   */
  read(
    statement: Pick<CompiledQuery, 'sql' | 'parameters'>,
    options: { readonly budgetMs: number; readonly racks?: readonly ReadableRack[] },
  ): Promise<Record<string, unknown>[]>;
  /** Whether all of these tables exist. A database may be older than a surface. */
  has(tables: readonly string[]): Promise<boolean>;
  close(): Promise<void>;
}

/** The recorder's interface for the surface `transcript`. */
export interface Transcripts {
  /** Racks that a caller can read under the active grants; `by` as `acts.by` in src/store/schema.ts. */
  readable(
    by: string,
  ): Promise<{ readonly racks: readonly ReadableRack[]; readonly withheld: readonly RackId[] }>;
  /** Records an access in the review. Called before the response is sent. */
  read(by: string, racks: readonly RackId[], rows: number): Promise<void>;
}

export interface ObserveEnvelope {
  readonly contract: 1;
  readonly surface: string;
  readonly query: unknown;
  readonly as_of: string;
  readonly columns: readonly ResultColumn[];
  /** Each row is an array in the order of `columns`. */
  readonly rows: readonly (readonly unknown[])[];
  readonly truncated: boolean;
  readonly next?: string;
  readonly coverage: {
    /** Oldest time of the matching rows; null if there are none. */
    readonly from: string | null;
    readonly to: string | null;
    /** Periods in which rows are known to be missing. */
    readonly gaps: readonly {
      readonly from: string;
      readonly to: string;
      readonly rows: number;
      readonly reason: string;
    }[];
    /**
     * Number of matching rows, and how many of them have a value in each measured or claimed column of the response.
     */
    readonly denominator: {
      readonly rows: number;
      readonly with_value: Readonly<Record<string, number>>;
    } | null;
  };
  /** What was left out or redacted, and why. */
  readonly redactions: readonly { readonly what: string; readonly reason: string; readonly count?: number }[];
  readonly warnings: readonly string[];
  readonly elapsed_ms: number;
}
