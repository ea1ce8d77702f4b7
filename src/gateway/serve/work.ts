import type { Candidate } from '../catalog/types.ts';
import type { Usage } from '../../wires/core/types.ts';
import { type Redact, redactor } from '../access/redact.ts';
import { StoreError } from '../../store/index.ts';
import { WireError } from '../../wires/core/error.ts';
import { type Attempt, Unaskable, type UpstreamReply } from '../upstream/types.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import type { ClientWire, RequestFacts, UpstreamBody, UpstreamWire } from '../../wires/core/wire.ts';
import type { Asked } from './asked.ts';
import { errorAnswer } from './answers.ts';
import { type Answer } from '../../http/deliver.ts';
import type { GatewayParts } from './parts.ts';
import { endpointOf, type Purchase } from './purchase.ts';
import { Tally } from './relay.ts';
import { ClientGone } from '../../http/error.ts';
import { endingOf } from './told.ts';

/** A request with its hold, while providers are tried. */
export interface Work {
  readonly parts: GatewayParts;
  readonly asked: Asked;
  readonly facts: RequestFacts;
  readonly purchase: Purchase;
  /** Builds the upstream body for a candidate. @throws WireError 400 when the provider's wire cannot express it */
  readonly bodyFor: (candidate: Candidate) => UpstreamBody;
  readonly failure: (candidate: Candidate) => UpstreamWire['failure'];
  readonly errorBody: ClientWire['errorBody'];
  /** Aborts the upstream request. */
  readonly givenUp: AbortSignal;
  /** Reports that the caller disconnected. */
  readonly left: () => void;
  /** Reports that the answer is sent and settled. */
  readonly over: () => void;
}

/** The progress of the attempts. */
interface Tried {
  /** The last attempt. */
  readonly last: Attempt | undefined;
  /** Whether that attempt was still running when the request was aborted. */
  readonly atWork: boolean;
}

/**
 * Tries the candidates in order.
 * @param use reads a reply with status 2xx; rejects with `UpstreamFailure` when the reply is unusable
 * @returns the result of `use`, or an error answer when every candidate failed; the hold is then released
 */
export async function served<T>(
  work: Work,
  use: (reply: UpstreamReply, attempt: Attempt) => Promise<T>,
): Promise<T | Answer> {
  const { parts, purchase, givenUp } = work;
  let tried: Tried = { last: undefined, atWork: false };
  const attempts = async (attempt: Attempt): Promise<T> => {
    const body = bodyOf(work, attempt);
    tried = { last: attempt, atWork: true };
    try {
      return await use(await send(work, attempt, body), attempt);
    } catch (error) {
      tried = { last: attempt, atWork: givenUp.aborted };
      throw error;
    }
  };
  try {
    return await parts.router.run(purchase.candidates, attempts, givenUp, purchase.keyId);
  } catch (error) {
    return await failed(work, tried, error);
  }
}

function bodyOf({ asked, bodyFor }: Work, { candidate, place }: Attempt): UpstreamBody {
  if (asked.gone.aborted) throw new ClientGone('before the provider was asked');
  try {
    return bodyFor(candidate);
  } catch (error) {
    // A fallback that cannot express the request is skipped: the caller gets the error of the model it asked for.
    throw place > 0 && error instanceof WireError ? new Unaskable(error.message) : error;
  }
}

async function send(work: Work, { candidate }: Attempt, body: UpstreamBody): Promise<UpstreamReply> {
  const { parts, facts, givenUp, asked } = work;
  const { stream, prefix } = facts;
  const traceparent = asked.told?.traceparent;
  const sending = { candidate, body, stream, prefix, signal: givenUp, traceparent };
  const reply = await parts.transport.send(sending);
  if (reply.status >= 200 && reply.status < 300) return reply;
  throw new UpstreamFailure(work.failure(candidate)(reply.status, await reply.text(), reply.headers));
}

/** Records in the receipt and the span that this candidate answers. */
export function serves({ asked: { receipt, told } }: Work, { candidate, place }: Attempt): void {
  if (told) {
    told.facts.effectiveModel = candidate.model.id;
    told.facts.provider = candidate.model.provider.id;
  }
  receipt.effectiveModel = candidate.model.id;
  receipt.endpoint = endpointOf(candidate);
  receipt.pricingIdentity = candidate.model.price.identity;
  if (place > 0) receipt.reason = 'provider_failover';
}

/** Handles the failure of all attempts: releases the hold and returns the error answer. */
async function failed(work: Work, { last, atWork }: Tried, error: unknown): Promise<Answer> {
  const { asked, purchase, facts, errorBody } = work;
  const candidate = last?.candidate ?? purchase.candidates[0];
  if (!candidate) throw error;
  if (last) serves(work, last);
  if (last && atWork && asked.gone.aborted) {
    // The provider was generating when the caller disconnected. Its usage is unknown, so an estimate is charged.
    const usage: Usage = new Tally().estimated(facts);
    await purchase.settle(candidate, last.place, usage, { status: 499, outcome: 'client_gone' });
    throw new ClientGone('before there was an answer');
  }
  if (error instanceof ClientGone) {
    await purchase.release(candidate, last?.place ?? 0, { status: 499, outcome: 'client_gone' });
    throw error;
  }
  const shown = shownError(work, error, candidate);
  asked.told?.end(endingOf(shown));
  const answer = errorAnswer(asked.receipt, shown, errorBody);
  const { status } = answer;
  const isOwnRejected = status === 422 && shown.code === 'provider_credential_rejected';
  const isOwnExhausted = status === 422 && shown.code === 'provider_quota_exhausted';
  // Errors that a retry or a new credential may resolve are not stored for the idempotency key.
  const isPassing = status >= 500 || status === 429 || isOwnRejected || isOwnExhausted;
  const kept =
    purchase.keeps && !isPassing ? { answer: { status, headers: answer.headers, body: answer.body } } : {};
  await purchase.release(candidate, last?.place ?? 0, { status, outcome: 'failed', ...kept });
  if (isOwnRejected) await markRejected(work, candidate);
  return answer;
}

/** Marks the caller's credential as rejected in its list. A failed write does not change the answer. */
async function markRejected({ parts, asked, purchase }: Work, { credential }: Candidate): Promise<void> {
  if (credential.kind !== 'byok') return;
  try {
    await parts.credentials.markRejected(purchase.accountId, credential.provider, credential.apiKey);
  } catch (error) {
    parts.onFault(asked.receipt.requestId, error);
  }
}

/** Converts a failure to the error that the caller gets. Internal errors are logged. */
export function shownError({ parts, asked }: Work, error: unknown, candidate: Candidate): WireError {
  const { requestId } = asked.receipt;
  const { credential } = candidate;
  if (error instanceof WireError) return withoutSecrets(asked, candidate, error);
  if (!(error instanceof UpstreamFailure)) {
    if (!(error instanceof ClientGone)) parts.onFault(requestId, error);
    return ownFault(requestId, error);
  }
  if (credential.kind === 'byok' && error.error.code === 'provider_credential_rejected')
    return new WireError(
      422,
      'upstream_error',
      `${credential.provider} rejects your own credential; store a new one with PUT /v1/keys/${credential.provider}.`,
      { code: 'provider_credential_rejected' },
    );
  if (credential.kind === 'byok' && error.error.code === 'provider_quota_exhausted')
    return new WireError(
      422,
      'upstream_error',
      `Your own account at ${credential.provider} is out of credit or quota; add some there, or store another credential with PUT /v1/keys/${credential.provider}.`,
      { code: 'provider_quota_exhausted' },
    );
  return withoutSecrets(asked, candidate, error.error);
}

/** Removes keys from error messages: providers repeat the key that they were sent, or parts of it. */
function redactorOf({ header }: Asked, { credential }: Candidate): Redact {
  const callers = [
    header('authorization')?.replace(/^bearer +/i, ''),
    header('x-api-key'),
    header('api-key'),
  ];
  return redactor(credential.apiKey, ...callers);
}

/** Redacts passed-through frames that hold an error in a form that the wire's parser did not recognize. */
export function frameRedactor(asked: Asked, candidate: Candidate): Redact {
  const { apiKey = '' } = candidate.credential;
  let redact: Redact | undefined;
  return (text) => {
    // A fast first test: the letter r is rarer than the quote, so the search stops less often.
    const tells = text.includes('rror') && text.includes('"error');
    if (!tells && (apiKey === '' || !text.includes(apiKey))) return text;
    redact ??= redactorOf(asked, candidate);
    return redact(text);
  };
}

function withoutSecrets(
  asked: Asked,
  candidate: Candidate,
  { status, type, message, code, param, violations, more, headers }: WireError,
): WireError {
  const redact = redactorOf(asked, candidate);
  return new WireError(status, type, redact(message), {
    headers,
    ...(code === undefined ? {} : { code: redact(code) }),
    ...(param === undefined ? {} : { param: redact(param) }),
    ...(violations ? { violations } : {}),
    ...(more ? { more } : {}),
  });
}

/** The error that the caller gets when the gateway itself failed. */
export function ownFault(requestId: string, error: unknown): WireError {
  if (error instanceof StoreError)
    return new WireError(
      503,
      'server_error',
      'The gateway cannot reach or write its database, so it accepts no requests; retry in a moment.',
      { code: error.code, headers: { 'retry-after': '1' }, cause: error },
    );
  return new WireError(
    500,
    'server_error',
    `The gateway failed on this request; its log names ${requestId}.`,
    {
      code: 'internal_error',
    },
  );
}
