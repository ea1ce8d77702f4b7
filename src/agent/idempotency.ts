import { createHash } from 'node:crypto';
import { isRecord } from '../util/json.ts';
import { AgentError } from './errors.ts';

/** SHA-256 of a request's members, independent of their order. */
export const requestDigest = (request: object): string =>
  createHash('sha256').update(JSON.stringify(request, sortMembers)).digest('hex');

const sortMembers = (_: string, value: unknown): unknown =>
  isRecord(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** A key came with another request before. @param first what was started with it */
export const idempotencyConflict = (first: string): AgentError =>
  new AgentError(
    'conflict',
    'idempotency_conflict',
    `This Idempotency-Key was sent with another request before, for ${first}. Send a new key with a new request.`,
  );
