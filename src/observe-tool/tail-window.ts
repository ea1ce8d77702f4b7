import type { Condition } from '../observe/query/shape.ts';
import type { ObserveEnvelope, ResultColumn } from '../observe/types.ts';
import type { Source, SurfaceSchema } from './source.ts';

const minuteMs = 60_000;
const pageRows = 1000;
const maxWindowMs = 6 * 60 * minuteMs;
const minWindowMs = 2 * minuteMs;

export interface NewRows {
  readonly columns: readonly ResultColumn[];
  /** Oldest first. */
  readonly rows: readonly (readonly unknown[])[];
  readonly asOf: string;
}

/**
 * Finds new rows of a surface. A row can arrive later than others of its time (a long answer is stored when it is
 * complete). Therefore the rows of each minute are counted, as far back as `windowMs`, and minutes whose count changed
 * are read again.
 */
export class TailWindow {
  readonly #source: Source;
  readonly #schema: SurfaceSchema;
  readonly #where: readonly Condition[];
  readonly #selected: readonly string[];
  /** Selected columns, followed by the columns of the key and the time. */
  readonly #readColumns: readonly string[];
  readonly #timeColumn: string;
  /** Row counts by minute. */
  #counts = new Map<string, number>();
  /** Keys of known rows with their times. */
  readonly #knownRows = new Map<string, string>();
  /** Time of the last response, by the clock of the source. */
  #asOf: string | undefined;
  #windowMs = maxWindowMs;

  constructor(
    source: Source,
    schema: SurfaceSchema,
    {
      where,
      select,
    }: { readonly where: readonly Condition[]; readonly select: readonly string[] | undefined },
  ) {
    this.#source = source;
    this.#schema = schema;
    this.#where = where;
    this.#selected = select ?? schema.columns.map(({ name }) => name);
    // `at` of a transcript row is the sender's; `received_at` is the host's.
    const receivedAt = schema.columns.find(({ name, nullable }) => name === 'received_at' && !nullable);
    this.#timeColumn = receivedAt?.name ?? schema.time;
    this.#readColumns = [...new Set([...this.#selected, ...schema.key, this.#timeColumn])];
  }

  /** Reads the known rows. @param last number of latest rows to return */
  async readInitial(last: number): Promise<NewRows> {
    const { rows, columns, asOf } = await this.#readNewRows();
    const latest = rows.slice(-last || rows.length);
    if (latest.length >= last) return this.#selectColumns(columns, last === 0 ? [] : latest, asOf);
    // The minute in which the window begins was read completely or not at all.
    const begun = minuteAt(Date.parse(asOf) - this.#windowMs);
    const first = this.#counts.has(begun) ? begun : nextMinute(begun);
    const before = await this.#source.query({
      ...this.#buildQuery([{ column: this.#timeColumn, op: 'lt', value: first }], 'desc'),
      limit: last - latest.length,
    });
    const older = [...before.document.rows].reverse();
    return this.#selectColumns(before.document.columns, [...older, ...latest], asOf);
  }

  async readNext(): Promise<NewRows> {
    const { rows, columns, asOf } = await this.#readNewRows();
    return this.#selectColumns(columns, rows, asOf);
  }

  /** Halves the window. @returns the new length in ms; undefined if it is already at its minimum */
  shrink(): number | undefined {
    if (this.#windowMs <= minWindowMs) return undefined;
    this.#windowMs = Math.max(minWindowMs, this.#windowMs / 2);
    return this.#windowMs;
  }

  /** Reads new rows. After a failure the next call reads them again. */
  async #readNewRows(): Promise<NewRows> {
    const counts = await this.#countByMinute();
    const asOf = this.#asOf ?? '';
    const found = new Map<string, string>();
    const rows: (readonly unknown[])[] = [];
    let columns: readonly ResultColumn[] = [];
    for (const { first, last } of changedRanges(counts, this.#counts)) {
      for await (const page of this.#pagesIn([
        { column: this.#timeColumn, op: 'gte', value: first },
        { column: this.#timeColumn, op: 'lt', value: nextMinute(last) },
      ])) {
        columns = page.columns;
        for (const row of page.rows) {
          const key = this.#keyOf(row);
          if (this.#knownRows.has(key) || found.has(key)) continue;
          found.set(key, this.#timeOf(row));
          rows.push(row);
        }
      }
    }
    this.#counts = counts;
    for (const [key, time] of found) this.#knownRows.set(key, time);
    this.#forgetOldRows();
    return { columns, rows, asOf };
  }

  async #countByMinute(): Promise<Map<string, number>> {
    const counts = new Map<string, number>();
    const query = {
      surface: this.#schema.surface,
      where: [...this.#where, { column: this.#timeColumn, op: 'gte', value: this.#windowStart() }],
      group_by: [{ column: this.#timeColumn, bucket: 'minute' }],
      aggregate: [{ fn: 'count', as: 'tail_rows' }],
      order_by: [{ column: this.#timeColumn, direction: 'asc' }],
      limit: pageRows,
    };
    for await (const { rows, as_of } of queryPages(this.#source, query)) {
      this.#asOf = as_of;
      for (const [minute, count] of rows) counts.set(String(minute), Number(count));
    }
    return counts;
  }

  /** Start of the window, on a whole minute after the first count: the count of a partial minute would change. */
  #windowStart(): string {
    if (this.#asOf === undefined) return `-${this.#windowMs / minuteMs}m`;
    return minuteAt(Date.parse(this.#asOf) - this.#windowMs + minuteMs - 1);
  }

  #buildQuery(within: readonly Condition[], direction: 'asc' | 'desc') {
    return {
      surface: this.#schema.surface,
      select: this.#readColumns,
      where: [...this.#where, ...within],
      order_by: [{ column: this.#timeColumn, direction }],
      limit: pageRows,
    };
  }

  #pagesIn(within: readonly Condition[]): AsyncGenerator<ObserveEnvelope> {
    return queryPages(this.#source, this.#buildQuery(within, 'asc'));
  }

  #keyOf(row: readonly unknown[]): string {
    return JSON.stringify(this.#schema.key.map((name) => row[this.#readColumns.indexOf(name)]));
  }

  #timeOf(row: readonly unknown[]): string {
    return String(row[this.#readColumns.indexOf(this.#timeColumn)]);
  }

  /** Forgets rows before the window, which cannot appear again. */
  #forgetOldRows(): void {
    const since = this.#windowStart();
    for (const [key, time] of this.#knownRows) if (time < since) this.#knownRows.delete(key);
  }

  #selectColumns(columns: readonly ResultColumn[], rows: NewRows['rows'], asOf: string): NewRows {
    const columnCount = this.#selected.length;
    return {
      columns: columns.slice(0, columnCount),
      rows: rows.map((row) => row.slice(0, columnCount)),
      asOf,
    };
  }
}

/** Iterates over the pages of a query. */
export async function* queryPages(source: Source, query: object): AsyncGenerator<ObserveEnvelope> {
  for (let cursor: string | undefined; ; ) {
    const { document } = await source.query({ ...query, ...(cursor === undefined ? {} : { cursor }) });
    yield document;
    cursor = document.next;
    if (cursor === undefined) return;
  }
}

const nextMinute = (minute: string) => new Date(Date.parse(minute) + minuteMs).toISOString();

const minuteAt = (ms: number) => new Date(Math.max(0, Math.floor(ms / minuteMs) * minuteMs)).toISOString();

/** Ranges of changed minutes. Adjacent minutes are combined up to one page. */
function changedRanges(counts: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>) {
  const ranges: { first: string; last: string; rows: number }[] = [];
  let isOpen = false;
  for (const [minute, rows] of counts) {
    const range = isOpen ? ranges.at(-1) : undefined;
    isOpen = before.get(minute) !== rows;
    if (!isOpen) continue;
    if (range && range.rows + rows <= pageRows) {
      range.last = minute;
      range.rows += rows;
    } else ranges.push({ first: minute, last: minute, rows });
  }
  return ranges;
}
