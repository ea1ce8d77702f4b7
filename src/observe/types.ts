import type { RackId } from '../watch/index.ts';

export type ColumnType = 'text' | 'integer' | 'number' | 'time' | 'flag' | 'json';

/**
 * Where a value comes from: this host measured it, somebody else says so, or it was reckoned or written down by the host.
 * A column has one of them, and never values of another.
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

/** A statement's text in both databases' words; one text where they agree. */
export type Sql = string | { readonly sqlite: string; readonly postgres: string };

/** A column as a surface declares it. Its SQL is ours alone: nothing of a caller is ever part of it. */
export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** `ms`, `tokens`, `tokens/s`, `bytes`, `nanousd`, ... */
  readonly unit?: string;
  readonly provenance: Provenance;
  readonly description: string;
  /** Default: the column of the same name in the surface's source. */
  readonly sql?: Sql;
  /** Without null. */
  readonly required?: true;
  /** May be read, but not searched, grouped by or ordered by: long texts. */
  readonly readOnly?: true;
}

export interface Surface {
  readonly name: string;
  readonly description: string;
  readonly columns: readonly Column[];
  /** Columns that no two rows have in common, in the order that breaks ties. */
  readonly key: readonly string[];
  /** The column of the time that coverage is about; rows are newest first by it where nothing else is asked for. */
  readonly time: string;
  /** What stands behind `from`. `rack`: the histories of racks, each a file of its own. */
  readonly source: { readonly from: Sql; readonly tables: readonly string[] } | 'racks';
}

/** What a surface's schema tells of a column. */
export interface ShownColumn {
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

/** A compiled query: the text holds names and expressions of surfaces only, everything of a caller is a parameter. */
export interface Compiled {
  readonly sql: string;
  readonly parameters: readonly (string | number | null)[];
  readonly columns: readonly ShownResult[];
}

/** A column of an answer. */
export interface ShownResult {
  readonly name: string;
  readonly type: ColumnType;
  readonly unit?: string;
  readonly provenance: Provenance;
}

/** A history that a reader may see. */
export interface ReadableRack {
  readonly rack: RackId;
  /** An SQLite file. */
  readonly path: string;
  /** Only events with a greater `seq`; absent: all. */
  readonly after?: number;
}

/** Runs statements that cannot write, and gives up on those that take too long. */
export interface Reader {
  readonly kind: 'sqlite' | 'postgres';
  /**
   * @param racks files that are attached for the statement, each under its rack's name
   * @returns rows as objects; whole numbers beyond 2^53 as texts
   * @throws ObserveError over_budget, unreadable
   */
  read(
    statement: Pick<Compiled, 'sql' | 'parameters'>,
    options: { readonly budgetMs: number; readonly racks?: readonly ReadableRack[] },
  ): Promise<Record<string, unknown>[]>;
  /** Whether all of these tables are there: a data directory may be older than a surface. */
  has(tables: readonly string[]): Promise<boolean>;
  close(): Promise<void>;
}

/** What the recorder tells whoever answers for the surface `transcript`. */
export interface Transcripts {
  /** Racks that somebody may read now, by the grants in force; `by` as `acts.by` of src/store/schema.ts. */
  readable(
    by: string,
  ): Promise<{ readonly racks: readonly ReadableRack[]; readonly withheld: readonly RackId[] }>;
  /** Is told of every access, before the answer is given: it stands in the review. */
  read(by: string, racks: readonly RackId[], rows: number): Promise<void>;
}

export interface ObserveEnvelope {
  readonly contract: 1;
  readonly surface: string;
  readonly query: unknown;
  readonly as_of: string;
  readonly columns: readonly ShownResult[];
  /** Arrays in the order of `columns`. */
  readonly rows: readonly (readonly unknown[])[];
  readonly truncated: boolean;
  readonly next?: string;
  readonly coverage: {
    /** Of the rows that the query is about; null where there are none. */
    readonly from: string | null;
    readonly to: string | null;
    /** Where rows are known to be missing. */
    readonly gaps: readonly {
      readonly from: string;
      readonly to: string;
      readonly rows: number;
      readonly reason: string;
    }[];
    /** Rows that the query is about, and how many of them have a value in each measured or claimed column of the answer. */
    readonly denominator: {
      readonly rows: number;
      readonly with_value: Readonly<Record<string, number>>;
    } | null;
  };
  /** What was left out or made unreadable, and why. */
  readonly redactions: readonly { readonly what: string; readonly reason: string; readonly count?: number }[];
  readonly warnings: readonly string[];
  readonly elapsed_ms: number;
}
