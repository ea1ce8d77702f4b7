type Value = string | number | boolean | null;
/** A row of a result, by the names of its columns. */
export type ResultRecord = Readonly<Record<string, Value>>;

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
