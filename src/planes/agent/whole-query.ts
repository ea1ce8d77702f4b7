import { invalidBody } from '../../http/violations.ts';

/** Reads an integer query parameter. @throws HttpError 400 where it is out of range or not an integer */
export function wholeQuery(
  query: URLSearchParams,
  name: string,
  { least, most, otherwise }: { least: number; most: number; otherwise: number },
): number {
  const given = query.get(name);
  if (given === null) return otherwise;
  const value = /^\d{1,9}$/.test(given) ? Number(given) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw invalidBody([
    { path: name, message: `expected a whole number from ${least} to ${most}, got '${given.slice(0, 40)}'` },
  ]);
}
