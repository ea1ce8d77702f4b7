import type { Candidate } from '../catalog/types.ts';
import type { Usage } from '../../wires/core/types.ts';
import { type Redact, createRedactor } from '../access/redact.ts';
import { StoreError } from '../../store/index.ts';
import { WireError } from '../../wires/core/error.ts';
import { providerNameOf } from '../upstream/destination.ts';
import {
  type Attempt,
  type HedgeOptions,
  UntranslatableRequest,
  type UpstreamReply,
} from '../upstream/types.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import type { ClientWire, RequestFacts, UpstreamBody, UpstreamWire } from '../../wires/core/wire.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { errorAnswer } from './answers.ts';
import type { AnswerCheck } from './hook-checks.ts';
import type { CacheSlot } from './cache-slot.ts';
import { type OutgoingResponse } from '../../http/deliver.ts';
import type { GatewayServices } from './services.ts';
import { endpointOf, type Hold } from './hold.ts';
import { AnswerTally } from './relay.ts';
import { ClientGone } from '../../http/error.ts';
import { safeCodeOf, spanResultOf } from './span.ts';

/** A request with its hold, while providers are tried. */
export interface RequestContext {
  readonly services: GatewayServices;
  readonly incoming: IncomingRequest;
  readonly facts: RequestFacts;
  readonly hold: Hold;
  /** Undefined when the request does not use the cache of answers. */
  readonly cacheSlot: CacheSlot | undefined;
  /** Asks hooks about an answer; undefined where none checks answers. */
  readonly checkAnswer: AnswerCheck | undefined;
  /** What was read so far of streams that are read whole before any of it is sent. */
  readonly tallies: Map<Candidate, AnswerTally>;
  /** Builds the upstream body for a candidate. @throws WireError 400 when the provider's wire cannot express it */
  readonly bodyFor: (candidate: Candidate) => UpstreamBody;
  readonly failure: (candidate: Candidate) => UpstreamWire['failure'];
  readonly errorBody: ClientWire['errorBody'];
  /** Aborts the upstream request. */
  readonly abortSignal: AbortSignal;
  /** Reports that the caller disconnected. */
  readonly detachClient: () => void;
  /** Reports that the answer is sent and settled. */
  readonly finish: () => void;
  /** Resolves then. */
  readonly finished: Promise<void>;
}

/** The progress of the attempts. */
interface AttemptState {
  /** The last attempt. */
  readonly last: Attempt | undefined;
  /** Whether that attempt was still running when the request was aborted. */
  readonly wasRunning: boolean;
}

/**
 * Tries the candidates in order.
 * @param use reads a reply with status 2xx; rejects with `UpstreamFailure` when the reply is unusable
 * @returns the result of `use`, or an error answer when every candidate failed; the hold is then released
 */
export async function tryCandidates<T>(
  context: RequestContext,
  readReply: (reply: UpstreamReply, attempt: Attempt) => Promise<T>,
): Promise<T | OutgoingResponse> {
  const { services, hold, abortSignal } = context;
  let state: AttemptState = { last: undefined, wasRunning: false };
  /** The attempts of the failures: the router may report that of an earlier one. */
  const failures = new Map<unknown, Attempt>();
  /** Time until the head of an answer, by the number of the attempt. */
  const responseMs = new Map<number, number>();
  /** When a request was sent, by the number of the attempt. */
  const sentAtMs = new Map<number, number>();
  const runAttempt = async (attempt: Attempt): Promise<T> => {
    const body = buildBody(context, attempt);
    state = { last: attempt, wasRunning: true };
    const sentAt = performance.now();
    sentAtMs.set(attempt.attemptNumber, sentAt);
    markAdmitted(context.incoming, sentAt);
    const onHead = () => {
      responseMs.set(attempt.attemptNumber, performance.now() - sentAt);
      // A stream has begun with its first frame.
      if (!context.facts.stream) attempt.onFirstByte?.();
    };
    try {
      return await readReply(await sendAttempt(context, attempt, { body, onHead }), attempt);
    } catch (error) {
      // Another attempt answered.
      if (attempt.signal?.aborted === true && !abortSignal.aborted) throw error;
      state = { last: attempt, wasRunning: abortSignal.aborted };
      failures.set(error, attempt);
      throw error;
    }
  };
  const { requestId } = context.incoming.receipt;
  const onHedge: HedgeOptions['onHedge'] = ([first, second]) => {
    hold.recordHedge([first, second]);
    services.observer.onHedge?.({
      requestId,
      model: second.candidate.model.id,
      provider: providerNameOf(second.candidate),
      outcome: second.outcome === 'answered' ? 'won' : first.outcome === 'answered' ? 'lost' : 'failed',
    });
  };
  try {
    return await services.router.run(hold.candidates, runAttempt, {
      signal: abortSignal,
      callerId: hold.keyId,
      stream: context.facts.stream,
      finished: context.finished,
      ...(hold.hedgeDelayMs === undefined ? {} : { hedge: { delayMs: hold.hedgeDelayMs, onHedge } }),
      onAttempt({ candidate, attemptNumber, failure, retryDelayMs }) {
        const headMs = responseMs.get(attemptNumber);
        const sentAt = sentAtMs.get(attemptNumber);
        services.observer.onAttempt?.({
          requestId,
          provider: providerNameOf(candidate),
          model: candidate.model.id,
          attemptNumber,
          ...(headMs === undefined ? {} : { responseMs: headMs }),
          ...(sentAt === undefined ? {} : { elapsedMs: performance.now() - sentAt }),
          ...(failure ? { failure: { status: failure.error.status, code: safeCodeOf(failure.error) } } : {}),
          ...(retryDelayMs === undefined ? {} : { retryDelayMs }),
        });
      },
    });
  } catch (error) {
    return await failRequest(context, { ...state, last: failures.get(error) ?? state.last }, error);
  }
}

/** Records how long the gateway itself took before it asked the first provider. */
function markAdmitted({ span, arrivedAt }: IncomingRequest, sentAt: number): void {
  if (span) span.attributes.admissionMs ??= sentAt - arrivedAt;
}

function buildBody({ incoming, bodyFor }: RequestContext, { candidate }: Attempt): UpstreamBody {
  if (incoming.disconnectSignal.aborted) throw new ClientGone('before the provider was asked');
  try {
    return bodyFor(candidate);
  } catch (error) {
    throw error instanceof WireError ? new UntranslatableRequest(error.message, { cause: error }) : error;
  }
}

async function sendAttempt(
  context: RequestContext,
  { candidate, signal: attemptSignal }: Attempt,
  { body, onHead }: { readonly body: UpstreamBody; readonly onHead: () => void },
): Promise<UpstreamReply> {
  const { services, facts, incoming, hold } = context;
  const abortSignal = attemptSignal
    ? AbortSignal.any([context.abortSignal, attemptSignal])
    : context.abortSignal;
  const { stream, prefix } = facts;
  const traceparent = incoming.span?.traceparent;
  const client = `account:${hold.accountId}`;
  const request = { candidate, body, stream, prefix, signal: abortSignal, traceparent, client };
  const reply = await services.transport.send(request);
  onHead();
  if (reply.status >= 200 && reply.status < 300) return reply;
  throw new UpstreamFailure(context.failure(candidate)(reply.status, await reply.text(), reply.headers));
}

/** Records in the receipt and the span that this candidate answers. */
export function markServing(
  { incoming: { receipt, span } }: RequestContext,
  { candidate, candidateIndex }: Attempt,
): void {
  if (span) {
    span.attributes.effectiveModel = candidate.model.id;
    span.attributes.provider = candidate.model.provider.id;
  }
  receipt.effectiveModel = candidate.model.id;
  receipt.endpoint = endpointOf(candidate);
  receipt.provider = providerNameOf(candidate);
  receipt.pricingIdentity = candidate.model.price.identity;
  if (candidateIndex > 0) receipt.reason = 'provider_failover';
}

/** Handles the failure of all attempts: releases the hold and returns the error answer. */
async function failRequest(
  context: RequestContext,
  { last, wasRunning }: AttemptState,
  error: unknown,
): Promise<OutgoingResponse> {
  const { incoming, hold, facts, errorBody } = context;
  const candidate = last?.candidate ?? hold.candidates[0];
  if (!candidate) throw error;
  if (last) markServing(context, last);
  if (last && wasRunning && incoming.disconnectSignal.aborted) {
    // The provider was generating when the caller disconnected. Its usage is unknown, so an estimate is charged.
    const tally = context.tallies.get(candidate) ?? new AnswerTally();
    const usage: Usage = tally.estimateUsage(facts);
    await hold.settle(candidate, last.candidateIndex, usage, { status: 499, outcome: 'client_gone' });
    throw new ClientGone('before there was an answer');
  }
  if (error instanceof ClientGone) {
    await hold.release(candidate, last?.candidateIndex ?? 0, { status: 499, outcome: 'client_gone' });
    throw error;
  }
  const clientError = toClientError(context, error, candidate);
  incoming.span?.end(spanResultOf(clientError));
  const answer = errorAnswer(incoming.receipt, clientError, errorBody);
  const { status } = answer;
  const isOwnRejected = status === 422 && clientError.code === 'provider_credential_rejected';
  const isOwnExhausted = status === 422 && clientError.code === 'provider_quota_exhausted';
  // Errors that a retry or a new credential may resolve are not stored for the idempotency key.
  const isTransient = status >= 500 || status === 429 || isOwnRejected || isOwnExhausted;
  const stored =
    hold.storesAnswer && !isTransient
      ? { answer: { status, headers: answer.headers, body: answer.body } }
      : {};
  await hold.release(candidate, last?.candidateIndex ?? 0, { status, outcome: 'failed', ...stored });
  if (isOwnRejected) await markRejected(context, candidate);
  return answer;
}

/** Marks the caller's credential as rejected in its list. A failed write does not change the answer. */
async function markRejected(
  { services, incoming, hold }: RequestContext,
  { credential }: Candidate,
): Promise<void> {
  if (credential.kind !== 'byok') return;
  try {
    await services.credentials.markRejected(hold.accountId, credential.provider, credential.apiKey);
  } catch (error) {
    services.onFault(incoming.receipt.requestId, error);
  }
}

/** Converts a failure to the error that the caller gets. Internal errors are logged. */
export function toClientError(
  { services, incoming }: RequestContext,
  error: unknown,
  candidate: Candidate,
): WireError {
  const { requestId } = incoming.receipt;
  const { credential } = candidate;
  if (error instanceof WireError) return redactError(incoming, candidate, error);
  if (!(error instanceof UpstreamFailure)) {
    if (!(error instanceof ClientGone)) services.onFault(requestId, error);
    return internalError(requestId, error);
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
  return redactError(incoming, candidate, error.error);
}

/** Removes keys from error messages: providers repeat the key that they were sent, or parts of it. */
function redactorFor({ header }: IncomingRequest, { credential }: Candidate): Redact {
  const callers = [
    header('authorization')?.replace(/^bearer +/i, ''),
    header('x-api-key'),
    header('api-key'),
  ];
  return createRedactor(credential.apiKey, ...callers);
}

/** Redacts passed-through frames that hold an error in a form that the wire's parser did not recognize. */
export function frameRedactor(incoming: IncomingRequest, candidate: Candidate): Redact {
  const { apiKey = '' } = candidate.credential;
  let redact: Redact | undefined;
  return (text) => {
    // A fast first test: the letter r is rarer than the quote, so the search stops less often.
    const mayHoldError = text.includes('rror') && text.includes('"error');
    if (!mayHoldError && (apiKey === '' || !text.includes(apiKey))) return text;
    redact ??= redactorFor(incoming, candidate);
    return redact(text);
  };
}

function redactError(
  incoming: IncomingRequest,
  candidate: Candidate,
  { status, type, message, code, param, violations, extraMembers, headers }: WireError,
): WireError {
  const redact = redactorFor(incoming, candidate);
  return new WireError(status, type, redact(message), {
    headers,
    ...(code === undefined ? {} : { code: redact(code) }),
    ...(param === undefined ? {} : { param: redact(param) }),
    ...(violations ? { violations } : {}),
    ...(extraMembers ? { extraMembers } : {}),
  });
}

/** The error that the caller gets when the gateway itself failed. */
export function internalError(requestId: string, error: unknown): WireError {
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
