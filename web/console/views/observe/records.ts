import { api, unwrap } from '../../../api/client.ts';
import type { Envelope, Query } from './types.ts';

type Value = string | number | boolean | null;
/** A row of a result, by the names of its columns. */
export type ResultRecord = Readonly<Record<string, Value>>;

/** A page of a result as records. */
export interface Records {
  readonly records: readonly ResultRecord[];
  readonly asOf: string;
  readonly coverage: Envelope['coverage'];
  readonly next: string | undefined;
}

export async function fetchRecords(query: Query): Promise<Records> {
  const envelope = await unwrap(api.POST('/observe/v1/query', { body: query }));
  const names = envelope.columns.map(({ name }) => name);
  return {
    records: envelope.rows.map((row) =>
      Object.fromEntries(names.map((name, index) => [name, (row[index] ?? null) as Value])),
    ),
    asOf: envelope.as_of,
    coverage: envelope.coverage,
    next: envelope.next,
  };
}

/** A number of a record; null where it has none. Integers beyond 2^53 are strings. */
export function numberIn(record: ResultRecord | undefined, name: string): number | null {
  const value = record?.[name];
  if (value === null || value === undefined || typeof value === 'boolean') return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}

/** A text of a record; empty where it has none. */
export const textIn = (record: ResultRecord | undefined, name: string): string => {
  const value = record?.[name];
  return value === null || value === undefined ? '' : String(value);
};
