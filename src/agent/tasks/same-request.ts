import { createHash } from 'node:crypto';

/** Of a request's members, in whatever order they came. */
export const requestDigest = (request: object): string =>
  createHash('sha256').update(JSON.stringify(request, sorted)).digest('hex');

const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;
