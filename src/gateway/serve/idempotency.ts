import { createHash } from 'node:crypto';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import type { ClaimStatus } from '../ledger/types.ts';
import { OutgoingResponse } from '../../http/deliver.ts';

export interface IdempotencyKey {
  readonly key: string;
  /** SHA-256 of the route and the body. */
  readonly bodyHash: string;
}

/** @throws WireError 400 */
export function parseIdempotencyKey(
  header: string | undefined,
  route: string,
  body: string,
): IdempotencyKey | undefined {
  if (header === undefined) return undefined;
  if (header.length === 0 || header.length > 255)
    throw invalidRequest(`idempotency-key must have 1 to 255 characters, got ${header.length}.`, {
      param: 'idempotency-key',
    });
  return { key: header, bodyHash: createHash('sha256').update(`${route}\n`).update(body).digest('hex') };
}

/** Returns the stored answer of the first request with the key. @throws WireError 409 when there is none to return */
export function replayAnswer(claim: ClaimStatus): OutgoingResponse {
  switch (claim.state) {
    case 'done': {
      const { status, headers, body } = claim.answer;
      return new OutgoingResponse(status, { ...headers, 'x-svc-idempotent-replay': 'true' }, body);
    }
    case 'in_progress':
      throw new WireError(
        409,
        'invalid_request_error',
        'The first request with this idempotency-key is still running; retry in a moment to get its answer.',
        { code: 'request_in_progress', headers: { 'retry-after': '1' } },
      );
    case 'gone':
      throw new WireError(
        409,
        'invalid_request_error',
        `The request with this idempotency-key is finished and charged (${claim.requestId}), but its answer was not stored; use a new key to send it again.`,
        { code: 'idempotency_answer_lost', headers: { 'x-should-retry': 'false' } },
      );
    case 'conflict':
      throw new WireError(
        409,
        'invalid_request_error',
        'This idempotency-key was used before with a different body; use a new key for a new request.',
        { code: 'idempotency_conflict', headers: { 'x-should-retry': 'false' } },
      );
  }
}
