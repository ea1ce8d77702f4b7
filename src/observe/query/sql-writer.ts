import { toDialectSql, queryTime } from '../surfaces/sql.ts';
import type { Column, ColumnType } from '../types.ts';
import type { BucketName } from './shape.ts';
import type { OutputColumn, CursorValue } from './types.ts';

type Kind = 'sqlite' | 'postgres';

const postgresTypes: Readonly<Record<ColumnType, string>> = {
  text: 'text',
  time: 'text',
  json: 'text',
  integer: 'bigint',
  flag: 'bigint',
  number: 'float8',
};

/** Start of a bucket: the length of the prefix of a time's text, and the rest that completes it. */
const bucketParts: Readonly<Record<BucketName, readonly [length: number, rest: string]>> = {
  minute: [16, ':00.000Z'],
  ten_minutes: [15, '0:00.000Z'],
  hour: [13, ':00:00.000Z'],
  day: [10, 'T00:00:00.000Z'],
  month: [7, '-01T00:00:00.000Z'],
};

/** Builds a statement in one SQL dialect. Input of a caller is always bound as a parameter. */
export class SqlWriter {
  readonly kind: Kind;
  /** Base of relative times and ages. */
  readonly now: Date;
  readonly parameters: CursorValue[] = [];

  constructor(kind: Kind, now: Date) {
    this.kind = kind;
    this.now = now;
  }

  /**
   * Binds a parameter.
   * @param type type of the other operand; `sum`: PostgreSQL's sum of integers, which is unbounded
   */
  bind(value: CursorValue, type: ColumnType | 'sum'): string {
    const n = this.parameters.push(value);
    if (this.kind === 'postgres') return `$${n}::${type === 'sum' ? 'numeric' : postgresTypes[type]}`;
    const isDigits = typeof value === 'string' && (type === 'integer' || type === 'sum');
    return isDigits ? `cast(?${n} as numeric)` : `?${n}`;
  }

  column(column: Column): string {
    if (column.sql === undefined) return `t."${column.name}"`;
    const dialectSql = toDialectSql(column.sql)[this.kind];
    const now = dialectSql.includes(queryTime) ? this.bind(this.now.toISOString(), 'time') : '';
    const sql = dialectSql.replaceAll(queryTime, () => now);
    // Table columns already have this collation, and PostgreSQL uses their indexes only without an explicit one.
    const isText = postgresTypes[column.type] === 'text' && !/^t\.\w+$/.test(sql);
    return this.kind === 'postgres' && isText ? `(${sql} collate "C")` : sql;
  }

  /** SQL of a result column over the rows of a surface. */
  answered({ of, type }: OutputColumn): string {
    const column = of.column ? this.column(of.column) : '*';
    if (of.kind === 'aggregate') return this.#aggregate(of.fn, column, type, of.column?.type);
    if (of.bucket === undefined) return column;
    const [length, suffix] = bucketParts[of.bucket];
    return `(substr(${column}, 1, ${length}) || '${suffix}')`;
  }

  #aggregate(
    fn: Extract<OutputColumn['of'], { kind: 'aggregate' }>['fn'],
    x: string,
    result: ColumnType,
    of: ColumnType | undefined,
  ): string {
    const isSqlite = this.kind === 'sqlite';
    switch (fn) {
      case 'count_distinct':
        return `count(distinct ${x})`;
      case 'sum':
        if (result === 'number') return `sum(${x})`;
        // SQLite's sum fails beyond 2^63, but multiplication continues in floating point.
        return isSqlite ? `(sum(${x} >> 32) * 4294967296 + sum(${x} & 4294967295))` : `sum(${x}::bigint)`;
      case 'avg':
        if (of === 'number' || isSqlite) return `avg(${x})`;
        return `(sum(${x}::bigint)::float8 / count(${x}))`;
      case 'p50':
      case 'p95':
      case 'p99': {
        const percent = Number(fn.slice(1));
        const finite = of === 'number' ? `(case when abs(${x}) <= 1.7976931348623157e308 then ${x} end)` : x;
        if (isSqlite) return `percentile(${finite}, ${percent})`;
        return `percentile_cont(${percent / 100}) within group (order by ${finite}::float8)`;
      }
      case 'count':
      case 'min':
      case 'max':
        return `${fn}(${x})`;
    }
  }
}
