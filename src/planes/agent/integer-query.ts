import { invalidBodyError } from '../../http/violations.ts';

/** Reads an integer query parameter. @throws HttpError 400 where it is out of range or not an integer */
export function readIntegerQuery(
  query: URLSearchParams,
  name: string,
  { min, max, defaultValue }: { min: number; max: number; defaultValue: number },
): number {
  const text = query.get(name);
  if (text === null) return defaultValue;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw invalidBodyError([
    { path: name, message: `expected a whole number from ${min} to ${max}, got '${text.slice(0, 40)}'` },
  ]);
}
