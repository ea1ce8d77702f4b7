import type { ColumnType, ResultColumn } from '../types.ts';

/** Converts a row to an array: flags become booleans, JSON is parsed, integers beyond 2^53 stay strings. */
export const toRow = (columns: readonly ResultColumn[], row: Readonly<Record<string, unknown>>): unknown[] =>
  columns.map(({ type }, n) => toJsonValue(type, row[`c${n}`]));

function toJsonValue(type: ColumnType, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  switch (type) {
    case 'flag':
      return Number(value) !== 0;
    case 'integer':
      return Number.isSafeInteger(Number(value)) ? Number(value) : `${value as bigint | string}`;
    case 'number':
      return Number.isFinite(Number(value)) ? Number(value) : null;
    case 'json':
      return parseJson(value as string);
    case 'text':
    case 'time':
      return value;
  }
}

/** Returns a text that is not valid JSON unchanged. */
function parseJson(value: string): unknown {
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}
