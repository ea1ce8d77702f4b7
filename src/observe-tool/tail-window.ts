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
 * What comes into a surface. A row may come later than others of its time (a long answer is stored when it is over), so
 * the rows of each minute are counted, as far back as `windowMs`, and minutes that have grown are read anew.
 */
export class TailWindow {
  readonly #source: Source;
  readonly #schema: SurfaceSchema;
  readonly #where: readonly Condition[];
  readonly #selected: readonly string[];
  /** The columns of a row's key, and then its time, behind those that were asked for. */
  readonly #read: readonly string[];
  readonly #time: string;
  /** By minute. */
  #counts = new Map<string, number>();
  /** Rows that are known, with their times. */
  readonly #seen = new Map<string, string>();
  /** When the last answer was given, by the clock of whoever gave it. */
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
    // What a transcript's rows say of their time is their sender's; the host notes when they came.
    const came = schema.columns.find(({ name, nullable }) => name === 'received_at' && !nullable);
    this.#time = came?.name ?? schema.time;
    this.#read = [...new Set([...this.#selected, ...schema.key, this.#time])];
  }

  /** Rows are known from here on. @param last how many of the latest are given all the same */
  async begin(last: number): Promise<NewRows> {
    const { rows, columns, asOf } = await this.#grown();
    const latest = rows.slice(-last || rows.length);
    if (latest.length >= last) return this.#shown(columns, last === 0 ? [] : latest, asOf);
    // Of the minute that the window begins in, all was read or nothing.
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

  /** Looks back half as far from now on. @returns the new length in ms; undefined where it is short already */
  narrow(): number | undefined {
    if (this.#windowMs <= shortestMs) return undefined;
    this.#windowMs = Math.max(shortestMs, this.#windowMs / 2);
    return this.#windowMs;
  }

  /** All of it or nothing: what fails is read again the next time. */
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

  /** Whole minutes from the second look on: one of which a part is left would seem to change. */
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

  /** What is before the window cannot come again. */
  #forget(): void {
    const since = this.#since();
    for (const [key, time] of this.#seen) if (time < since) this.#seen.delete(key);
  }

  #shown(columns: readonly ShownResult[], rows: NewRows['rows'], asOf: string): NewRows {
    const asked = this.#selected.length;
    return { columns: columns.slice(0, asked), rows: rows.map((row) => row.slice(0, asked)), asOf };
  }
}

/** Pages of a query, one after the other. */
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

/** Minutes that have changed; of neighbours, as many as make a page are read in one go. */
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
