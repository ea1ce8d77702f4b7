import type { Condition } from '../observe/query/shape.ts';
import type { ObserveEnvelope, ShownResult } from '../observe/types.ts';
import type { Source, SurfaceSchema } from './source.ts';

const minuteMs = 60_000;
const pageRows = 1000;
const longestMs = 6 * 60 * minuteMs;
const shortestMs = 2 * minuteMs;

export interface NewRows {
  readonly columns: readonly ShownResult[];
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
  readonly #read: readonly string[];
  readonly #time: string;
  /** Row counts by minute. */
  #counts = new Map<string, number>();
  /** Keys of known rows with their times. */
  readonly #seen = new Map<string, string>();
  /** Time of the last response, by the clock of the source. */
  #asOf: string | undefined;
  #windowMs = longestMs;

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
    const came = schema.columns.find(({ name, nullable }) => name === 'received_at' && !nullable);
    this.#time = came?.name ?? schema.time;
    this.#read = [...new Set([...this.#selected, ...schema.key, this.#time])];
  }

  /** Reads the known rows. @param last number of latest rows to return */
  async begin(last: number): Promise<NewRows> {
    const { rows, columns, asOf } = await this.#grown();
    const latest = rows.slice(-last || rows.length);
    if (latest.length >= last) return this.#shown(columns, last === 0 ? [] : latest, asOf);
    // The minute in which the window begins was read completely or not at all.
    const begun = minuteAt(Date.parse(asOf) - this.#windowMs);
    const first = this.#counts.has(begun) ? begun : after(begun);
    const before = await this.#source.query({
      ...this.#asked([{ column: this.#time, op: 'lt', value: first }], 'desc'),
      limit: last - latest.length,
    });
    const older = [...before.document.rows].reverse();
    return this.#shown(before.document.columns, [...older, ...latest], asOf);
  }

  async next(): Promise<NewRows> {
    const { rows, columns, asOf } = await this.#grown();
    return this.#shown(columns, rows, asOf);
  }

  /** Halves the window. @returns the new length in ms; undefined if it is already at its minimum */
  narrow(): number | undefined {
    if (this.#windowMs <= shortestMs) return undefined;
    this.#windowMs = Math.max(shortestMs, this.#windowMs / 2);
    return this.#windowMs;
  }

  /** Reads new rows. After a failure the next call reads them again. */
  async #grown(): Promise<NewRows> {
    const counts = await this.#count();
    const asOf = this.#asOf ?? '';
    const found = new Map<string, string>();
    const rows: (readonly unknown[])[] = [];
    let columns: readonly ShownResult[] = [];
    for (const { first, last } of rangesOf(counts, this.#counts)) {
      for await (const page of this.#pages([
        { column: this.#time, op: 'gte', value: first },
        { column: this.#time, op: 'lt', value: after(last) },
      ])) {
        columns = page.columns;
        for (const row of page.rows) {
          const key = this.#keyOf(row);
          if (this.#seen.has(key) || found.has(key)) continue;
          found.set(key, this.#timeOf(row));
          rows.push(row);
        }
      }
    }
    this.#counts = counts;
    for (const [key, time] of found) this.#seen.set(key, time);
    this.#forget();
    return { columns, rows, asOf };
  }

  async #count(): Promise<Map<string, number>> {
    const counts = new Map<string, number>();
    const query = {
      surface: this.#schema.surface,
      where: [...this.#where, { column: this.#time, op: 'gte', value: this.#since() }],
      group_by: [{ column: this.#time, bucket: 'minute' }],
      aggregate: [{ fn: 'count', as: 'tail_rows' }],
      order_by: [{ column: this.#time, direction: 'asc' }],
      limit: pageRows,
    };
    for await (const { rows, as_of } of pagesOf(this.#source, query)) {
      this.#asOf = as_of;
      for (const [minute, count] of rows) counts.set(String(minute), Number(count));
    }
    return counts;
  }

  /** Start of the window, on a whole minute after the first count: the count of a partial minute would change. */
  #since(): string {
    if (this.#asOf === undefined) return `-${this.#windowMs / minuteMs}m`;
    return minuteAt(Date.parse(this.#asOf) - this.#windowMs + minuteMs - 1);
  }

  #asked(within: readonly Condition[], direction: 'asc' | 'desc') {
    return {
      surface: this.#schema.surface,
      select: this.#read,
      where: [...this.#where, ...within],
      order_by: [{ column: this.#time, direction }],
      limit: pageRows,
    };
  }

  #pages(within: readonly Condition[]): AsyncGenerator<ObserveEnvelope> {
    return pagesOf(this.#source, this.#asked(within, 'asc'));
  }

  #keyOf(row: readonly unknown[]): string {
    return JSON.stringify(this.#schema.key.map((name) => row[this.#read.indexOf(name)]));
  }

  #timeOf(row: readonly unknown[]): string {
    return String(row[this.#read.indexOf(this.#time)]);
  }

  /** Forgets rows before the window, which cannot appear again. */
  #forget(): void {
    const since = this.#since();
    for (const [key, time] of this.#seen) if (time < since) this.#seen.delete(key);
  }

  #shown(columns: readonly ShownResult[], rows: NewRows['rows'], asOf: string): NewRows {
    const asked = this.#selected.length;
    return { columns: columns.slice(0, asked), rows: rows.map((row) => row.slice(0, asked)), asOf };
  }
}

/** Iterates over the pages of a query. */
export async function* pagesOf(source: Source, query: object): AsyncGenerator<ObserveEnvelope> {
  for (let cursor: string | undefined; ; ) {
    const { document } = await source.query({ ...query, ...(cursor === undefined ? {} : { cursor }) });
    yield document;
    cursor = document.next;
    if (cursor === undefined) return;
  }
}

const after = (minute: string) => new Date(Date.parse(minute) + minuteMs).toISOString();

const minuteAt = (ms: number) => new Date(Math.max(0, Math.floor(ms / minuteMs) * minuteMs)).toISOString();

/** Ranges of changed minutes. Adjacent minutes are combined up to one page. */
function rangesOf(counts: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>) {
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
