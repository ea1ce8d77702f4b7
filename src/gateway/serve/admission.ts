import type { Caller, Resolution } from '../access/types.ts';
import type { Candidate } from '../catalog/types.ts';
import { invalidApiKey } from '../errors.ts';
import { WireError } from '../../wires/core/error.ts';
import type { RequestFacts } from '../../wires/core/wire.ts';
import { OutgoingResponse } from '../../http/deliver.ts';
import { providerNameOf } from '../upstream/destination.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { type IdempotencyKey, parseIdempotencyKey, replayAnswer } from './idempotency.ts';
import { stoppingError } from './in-flight.ts';
import { rejectMiscasedMembers } from './miscased-members.ts';
import type { GatewayServices } from './services.ts';
import { endpointOf, estimateCostOf, InvalidKeyError, type HoldRequest, Hold } from './hold.ts';
import type { Receipt } from './receipt.ts';
import { type JsonObjectBody, readJsonObject } from './request-body.ts';
import { ClientGone } from '../../http/error.ts';

/** An authenticated and validated request with the candidates that can serve it. */
export interface ParsedRequest<Facts extends RequestFacts> extends JsonObjectBody {
  readonly caller: Caller;
  readonly facts: Facts;
  readonly resolution: Resolution;
  readonly idempotency: IdempotencyKey | undefined;
}

export interface RequestRules<Facts extends RequestFacts> {
  readonly wire: string;
  /** @throws WireError 400 */
  readonly facts: (body: JsonObjectBody) => Facts;
  /** Checks that a candidate can serve the request. @throws WireError 400 */
  readonly checkCandidate: (candidate: Candidate, facts: Facts, body: JsonObjectBody) => void;
  readonly maxTokensOf: (candidate: Candidate, facts: Facts) => number;
}

/** A request whose cost is held in the ledger. */
export interface AdmittedRequest<Facts extends RequestFacts> {
  readonly parsed: ParsedRequest<Facts>;
  readonly hold: Hold;
  readonly maxTokensOf: (candidate: Candidate) => number;
  /** Aborts the upstream request: the gateway stops, or the caller disconnected longer ago than `drainSecs`. */
  readonly abortSignal: AbortSignal;
  /**
   * Reports that the caller disconnected: frees its place in the concurrency limit; the rest of the answer is read for its
   * usage. May be called more than once.
   */
  readonly detachClient: () => void;
  /** Reports that the answer is sent and its hold settled. May be called more than once. */
  readonly finish: () => void;
  /** Resolves then. */
  readonly finished: Promise<void>;
}

/**
 * Does everything that comes before the upstream request: authentication, parsing, model resolution, limits and the hold.
 * @returns an answer when the idempotency key already has one
 * @throws WireError
 */
export async function admitRequest<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
): Promise<AdmittedRequest<Facts> | OutgoingResponse> {
  try {
    const admitted = await placeHold(services, incoming, rules);
    if (admitted instanceof OutgoingResponse) await services.authenticator.confirm(incoming.header);
    return admitted;
  } catch (error) {
    if (error instanceof WireError) await confirmKeyAfter(error, services, incoming);
    throw error;
  }
}

/**
 * Confirms the key of a request that was refused before the ledger checked it: a revoked key must get a 401 and no other
 * error.
 */
async function confirmKeyAfter(
  { status }: WireError,
  { authenticator }: GatewayServices,
  incoming: IncomingRequest,
): Promise<void> {
  // A rate-limited request causes no database query.
  if (status === 401 || status === 429) return;
  try {
    await authenticator.confirm(incoming.header);
  } catch (error) {
    if (error instanceof WireError) throw error;
  }
}

async function placeHold<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
): Promise<AdmittedRequest<Facts> | OutgoingResponse> {
  const parsed = await parseRequest(services, incoming, rules);
  if (parsed instanceof OutgoingResponse) return parsed;
  const { caller, facts, resolution, idempotency } = parsed;
  const permit = await services.limiter.acquire(caller);
  const maxTokensOf = (candidate: Candidate) => rules.maxTokensOf(candidate, facts);
  const { wire } = rules;
  const holdRequest: HoldRequest = {
    caller,
    facts,
    wire,
    candidates: resolution.candidates,
    maxTokensOf,
    idempotency,
  };
  let hold: Hold | OutgoingResponse;
  try {
    hold = await Hold.place(services.ledger, incoming, holdRequest);
  } catch (error) {
    permit.release();
    if (error instanceof InvalidKeyError) throw invalidApiKey();
    throw error;
  }
  if (hold instanceof OutgoingResponse) {
    permit.release();
    return hold;
  }
  const finished = Promise.withResolvers<void>();
  const abortController = new AbortController();
  let isOpen = true;
  let endDrain: (() => void) | undefined;
  const detachClient = () => {
    if (!isOpen || endDrain) return;
    const abortUpstream = () => abortController.abort(new ClientGone('for longer than drain_secs'));
    const timer = setTimeout(abortUpstream, services.limits.drainSecs * 1000);
    const removeDrain = services.upstreamDrains.add(caller.key.id, abortUpstream);
    endDrain = () => {
      clearTimeout(timer);
      removeDrain();
    };
    // The hold stays until the answer is settled; the place in the concurrency limit is freed now.
    permit.release();
  };
  if (incoming.disconnectSignal.aborted) detachClient();
  else incoming.disconnectSignal.addEventListener('abort', detachClient, { once: true });
  services.inFlight.add(finished.promise, () => abortController.abort(stoppingError()));
  const finish = () => {
    if (!isOpen) return;
    isOpen = false;
    endDrain?.();
    incoming.disconnectSignal.removeEventListener('abort', detachClient);
    permit.release();
    finished.resolve();
  };
  return {
    parsed,
    hold,
    maxTokensOf,
    abortSignal: abortController.signal,
    detachClient,
    finish,
    finished: finished.promise,
  };
}

async function parseRequest<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
): Promise<ParsedRequest<Facts> | OutgoingResponse> {
  const { receipt, span } = incoming;
  const caller = await services.authenticator.authenticate(incoming.header);
  if (span) {
    span.attributes.keyId = caller.key.id;
    span.attributes.accountId = caller.accountId;
  }
  const body = await readJsonObject(
    incoming,
    services.limits.maxBodyBytes,
    services.bodyMemory.open(caller.key.id),
  );
  // Recorded first, so that the receipt names the model even when the rest of the body is invalid.
  const { model } = body.value;
  if (typeof model === 'string') {
    receipt.requestedModel = receipt.effectiveModel = model;
    if (span) span.attributes.requestedModel = model.slice(0, 200);
  }
  rejectMiscasedMembers(body.value);
  const facts = rules.facts(body);
  if (span) span.attributes.stream = facts.stream;
  const idempotency = parseIdempotencyKey(incoming.header('idempotency-key'), incoming.route, body.text);
  if (idempotency) {
    const { key, bodyHash } = idempotency;
    const claim = await services.ledger.findClaim(caller.accountId, key, bodyHash);
    if (claim) return replayAnswer(claim);
  }
  const resolution = await services.catalog.resolve(facts.model, {
    models: caller.key.models,
    findCredential: (provider) => services.credentials.find(caller.accountId, provider),
    fallbacks: parseFallbacks(incoming.header('x-svc-fallback-models')),
  });
  const [preferred] = resolution.candidates;
  if (!preferred) throw new Error(`nothing serves ${facts.model}`);
  receipt.reason = resolution.reason;
  nameCandidate(receipt, preferred);
  // Deployments and fallbacks that cannot serve the request are left out.
  const refusals = new Map<Candidate, WireError>();
  for (const candidate of resolution.candidates)
    try {
      rules.checkCandidate(candidate, facts, body);
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      refusals.set(candidate, error);
    }
  const usable = resolution.candidates.filter((candidate) => !refusals.has(candidate));
  const refusal = refusals.get(preferred);
  if (refusal && usable[0]?.model.id !== resolution.model.id) throw refusal;
  const candidates = services.router.order(usable, {
    prefix: facts.prefix,
    stream: facts.stream,
    costOf: (candidate) => estimateCostOf(candidate, facts, rules.maxTokensOf(candidate, facts)),
  });
  nameCandidate(receipt, candidates[0] ?? preferred);
  return {
    ...body,
    caller,
    facts,
    resolution: { ...resolution, candidates },
    idempotency,
  };
}

/** Names the candidate that the receipt states until one answers. */
function nameCandidate(receipt: Receipt, candidate: Candidate): void {
  receipt.effectiveModel = candidate.model.id;
  receipt.provider = providerNameOf(candidate);
  receipt.endpoint = endpointOf(candidate);
  receipt.pricingIdentity = candidate.model.price.identity;
}

const parseFallbacks = (header: string | undefined): string[] =>
  header === undefined
    ? []
    : header
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '');
