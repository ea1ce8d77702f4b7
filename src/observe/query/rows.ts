import type { ColumnType, ShownResult } from '../types.ts';

/** Converts a row to an array: flags become booleans, JSON is parsed, integers beyond 2^53 stay strings. */
export const rowOf = (columns: readonly ShownResult[], row: Readonly<Record<string, unknown>>): unknown[] =>
  columns.map(({ type }, n) => shown(type, row[`c${n}`]));

function shown(type: ColumnType, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  switch (type) {
    case 'flag':
      return Number(value) !== 0;
    case 'integer':
      return Number.isSafeInteger(Number(value)) ? Number(value) : `${value as bigint | string}`;
    case 'number':
      return Number.isFinite(Number(value)) ? Number(value) : null;
    case 'json':
      return parsed(value as string);
    case 'text':
    case 'time':
      return value;
  }
}

/** Returns a text that is not valid JSON unchanged. */
function parsed(value: string): unknown {
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}
