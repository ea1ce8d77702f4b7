import type { Candidate, Usage } from '../catalog/types.ts';
import { type Redact, redactor } from '../access/redact.ts';
import { StoreError } from '../../store/index.ts';
import { GatewayError } from '../errors.ts';
import { type Attempt, UpstreamFailure, type UpstreamReply } from '../upstream/types.ts';
import type { ClientWire, RequestFacts, UpstreamBody, UpstreamWire } from '../wires/wire.ts';
import type { Asked } from './asked.ts';
import { type Answer, errorAnswer } from './answers.ts';
import type { GatewayParts } from './parts.ts';
import { endpointOf, type Purchase } from './purchase.ts';
import { Tally } from './relay.ts';
import { CallerGone } from './request-body.ts';

/** A request at work: its money is held. */
export interface Work {
  readonly parts: GatewayParts;
  readonly asked: Asked;
  readonly facts: RequestFacts;
  readonly purchase: Purchase;
  /** What a candidate is asked. @throws GatewayError 400 where it cannot be put in the provider's words */
  readonly bodyFor: (candidate: Candidate) => UpstreamBody;
  readonly failure: (candidate: Candidate) => UpstreamWire['failure'];
  readonly errorBody: ClientWire['errorBody'];
  /** Aborted when the answer is no longer worth reading. */
  readonly givenUp: AbortSignal;
  /** The answer is out and settled. */
  readonly over: () => void;
}

/** One attempt. Rejects with `UpstreamFailure` for every status but 2xx. */
export async function send(work: Work, { candidate }: Attempt): Promise<UpstreamReply> {
  const { parts, asked, facts, givenUp } = work;
  if (asked.gone.aborted) throw new CallerGone('before the provider was asked');
  const { stream, prefix } = facts;
  const body = work.bodyFor(candidate);
  const reply = await parts.transport.send({ candidate, body, stream, prefix, signal: givenUp });
  if (reply.status >= 200 && reply.status < 300) return reply;
  throw new UpstreamFailure(work.failure(candidate)(reply.status, await reply.text(), reply.headers));
}

/** From here on the candidate is the one that answers. */
export function serves({ asked: { receipt } }: Work, { candidate, place }: Attempt): void {
  receipt.effectiveModel = candidate.model.id;
  receipt.endpoint = endpointOf(candidate);
  receipt.pricingIdentity = candidate.model.price.identity;
  if (place > 0) receipt.reason = 'provider_failover';
}

/** No attempt came to anything: what was held goes back, and the caller hears why. */
export async function failed(work: Work, last: Attempt | undefined, error: unknown): Promise<Answer> {
  const { asked, purchase, facts, errorBody, parts } = work;
  const candidate = last?.candidate ?? purchase.candidates[0];
  if (!candidate) throw error;
  if (last) serves(work, last);
  if (last && work.givenUp.aborted && asked.gone.aborted) {
    // The provider was at work for a caller that left, and nobody knows how far it came.
    const usage: Usage = new Tally().estimated(facts);
    await purchase.settle(candidate, last.place, usage, { status: 499, outcome: 'client_gone' });
    throw new CallerGone('before there was an answer');
  }
  if (error instanceof CallerGone) {
    await purchase.release(candidate, last?.place ?? 0, { status: 499, outcome: 'client_gone' });
    throw error;
  }
  const shown = shownError(work, error, candidate);
  const answer = errorAnswer(asked.receipt, shown, errorBody);
  const { status } = answer;
  const isOwnRejected = status === 422 && shown.code === 'provider_credential_rejected';
  // What may go well the next time, or with a new credential, is not kept for the next time.
  const kept =
    purchase.keeps && status < 500 && status !== 429 && !isOwnRejected
      ? { answer: { status, headers: answer.headers, body: answer.body } }
      : {};
  await purchase.release(candidate, last?.place ?? 0, { status, outcome: 'failed', ...kept });
  if (isOwnRejected)
    await parts.credentials.markRejected(
      purchase.accountId,
      candidate.credential.kind === 'byok' ? candidate.credential.provider : '',
      candidate.credential.kind === 'byok' ? candidate.credential.apiKey : undefined,
    );
  return answer;
}

/** What the caller hears of a failure. A fault of ours is told to the log. */
export function shownError({ parts, asked }: Work, error: unknown, candidate: Candidate): GatewayError {
  const { requestId } = asked.receipt;
  const { credential } = candidate;
  if (error instanceof GatewayError) return withoutSecrets(asked, candidate, error);
  if (!(error instanceof UpstreamFailure)) {
    if (!(error instanceof CallerGone)) parts.onFault(requestId, error);
    return ownFault(requestId, error);
  }
  if (credential.kind === 'byok' && error.error.code === 'provider_credential_rejected')
    return new GatewayError(
      422,
      'upstream_error',
      `${credential.provider} rejects your own credential; store a new one with PUT /v1/keys/${credential.provider}.`,
      { code: 'provider_credential_rejected' },
    );
  return withoutSecrets(asked, candidate, error.error);
}

/** Providers repeat the key that they were sent, or parts of it, in what they say of it. */
function redactorOf({ header }: Asked, { credential }: Candidate): Redact {
  const callers = [
    header('authorization')?.replace(/^bearer +/i, ''),
    header('x-api-key'),
    header('api-key'),
  ];
  return redactor(credential.apiKey, ...callers);
}

/** For frames that pass as they came: those that tell of a fault in words that are not their wire's, so that nobody knew it for one. */
export function frameRedactor(asked: Asked, candidate: Candidate): Redact {
  const { apiKey = '' } = candidate.credential;
  let redact: Redact | undefined;
  return (text) => {
    if (!text.includes('"error') && (apiKey === '' || !text.includes(apiKey))) return text;
    redact ??= redactorOf(asked, candidate);
    return redact(text);
  };
}

function withoutSecrets(
  asked: Asked,
  candidate: Candidate,
  { status, type, message, code, param, violations, more, headers }: GatewayError,
): GatewayError {
  const redact = redactorOf(asked, candidate);
  return new GatewayError(status, type, redact(message), {
    headers,
    ...(code === undefined ? {} : { code: redact(code) }),
    ...(param === undefined ? {} : { param: redact(param) }),
    ...(violations ? { violations } : {}),
    ...(more ? { more } : {}),
  });
}

/** What the caller hears where it was the gateway that failed. */
export function ownFault(requestId: string, error: unknown): GatewayError {
  if (error instanceof StoreError)
    return new GatewayError(
      503,
      'server_error',
      'The gateway cannot reach or write its database, so it takes no requests; ask again in a moment.',
      { code: error.code, headers: { 'retry-after': '1' }, cause: error },
    );
  return new GatewayError(
    500,
    'server_error',
    `The gateway failed on this request; its log names ${requestId}.`,
    {
      code: 'internal_error',
    },
  );
}
