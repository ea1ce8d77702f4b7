import { createHash } from 'node:crypto';
import { z } from 'zod';
import { maxCursorLength, type ObserveQuery } from './shape.ts';
import type { OutputColumn, CursorValue, CheckedQuery } from './types.ts';

const cursorShape = z.strictObject({
  query: z.string(),
  /** Time of the request for the first page. */
  now: z.iso.datetime({ precision: 3 }),
  after: z.array(z.union([z.string(), z.number(), z.null()])),
});
const int64 = { least: -(2n ** 63n), most: 2n ** 63n - 1n };

/** Hash of a query without cursor and limit. All pages of a query have the same. */
export function queryDigest({ cursor: _cursor, limit: _limit, ...query }: ObserveQuery): string {
  return createHash('sha256').update(JSON.stringify(query)).digest('base64url').slice(0, 22);
}

/** Converts a value for a cursor. @param value as the reader returned it */
function toCursorValue({ type }: OutputColumn, value: unknown): CursorValue {
  if (value === null || value === undefined) return null;
  if (type === 'number') return String(Number(value));
  if (type === 'flag') return Number(value);
  if (type !== 'integer') return value as string;
  const whole = typeof value === 'number' ? BigInt(Math.trunc(value)) : BigInt(value as bigint | string);
  return Number.isSafeInteger(Number(whole)) ? Number(whole) : String(whole);
}

function isValidCursorValue({ type, required, of }: OutputColumn, value: CursorValue): boolean {
  if (value === null) return !required;
  if (type === 'flag') return value === 0 || value === 1;
  if (type === 'integer') {
    if (typeof value === 'number') return Number.isSafeInteger(value);
    if (!/^-?\d{1,60}$/.test(value)) return false;
    // Only a sum can exceed 64 bits.
    if (of.kind === 'aggregate' && of.fn === 'sum') return true;
    return BigInt(value) >= int64.least && BigInt(value) <= int64.most;
  }
  if (typeof value !== 'string') return false;
  if (type === 'number') return value !== '' && String(Number(value)) === value;
  return !value.includes('\0') && value.isWellFormed();
}

/**
 * Cursor of the next page. It has the time of the first page, so that relative times mean the same on every page.
 * @param lastRow last row of this page, as the reader returned it
 * @param now the time that this page was compiled with
 * @returns undefined if the texts that the query is ordered by are too long for a cursor
 */
export function nextCursor(
  { digest, order, asOf }: Pick<CheckedQuery, 'digest' | 'order' | 'asOf'>,
  lastRow: Readonly<Record<string, unknown>>,
  now: Date,
): string | undefined {
  const after = order.map(({ by }, n) => toCursorValue(by, lastRow[`o${n}`]));
  const page = { query: digest, now: (asOf ?? now).toISOString(), after };
  const cursor = Buffer.from(JSON.stringify(page)).toString('base64url');
  return cursor.length > maxCursorLength ? undefined : cursor;
}

/** Parses a cursor. @returns the page's position, or what is wrong with the cursor */
export function readCursor(
  cursor: string,
  { digest, order }: Pick<CheckedQuery, 'digest' | 'order'>,
): Required<Pick<CheckedQuery, 'after' | 'asOf'>> | string {
  const read = cursorShape.safeParse(decodeCursor(cursor));
  if (!read.success) return 'is not a valid cursor: send the `next` of the previous page unchanged';
  const { query, now, after } = read.data;
  if (query !== digest)
    return 'belongs to another query: send it with the same query; only `limit` may differ';
  const isValid =
    after.length === order.length && order.every(({ by }, n) => isValidCursorValue(by, after[n] ?? null));
  return isValid
    ? { after, asOf: new Date(now) }
    : 'was modified: send the `next` of the previous page unchanged';
}

function decodeCursor(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return undefined;
  }
}
