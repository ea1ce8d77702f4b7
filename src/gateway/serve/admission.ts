import type { Caller, Resolution } from '../access/types.ts';
import { hasSameLimits, limitsOf, type Permit } from '../access/limits.ts';
import { estimateInputTokens } from '../catalog/price.ts';
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
import {
  endpointOf,
  estimateCostOf,
  InvalidKeyError,
  KeyChangedError,
  type HoldRequest,
  Hold,
} from './hold.ts';
import { parseHedgeDelay } from './hedge.ts';
import type { Receipt } from './receipt.ts';
import { type JsonObjectBody, readJsonObject } from './request-body.ts';
import { ClientGone } from '../../http/error.ts';
import { readTag } from '../usage/tags.ts';

/** An authenticated and validated request with the candidates that can serve it. */
export interface ParsedRequest<Facts extends RequestFacts> extends JsonObjectBody {
  readonly caller: Caller;
  readonly facts: Facts;
  readonly resolution: Resolution;
  readonly idempotency: IdempotencyKey | undefined;
  readonly hedgeDelayMs: number | undefined;
}

export interface RequestRules<Facts extends RequestFacts> {
  readonly wire: string;
  /** @throws WireError 400 */
  readonly facts: (body: JsonObjectBody) => Facts;
  /** Returns what checks that a candidate can serve the request. @throws WireError 400, when it is called */
  readonly candidateCheck: (facts: Facts, body: JsonObjectBody) => (candidate: Candidate) => void;
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
 * A request that was checked against settings of its key that were changed meanwhile is checked again.
 * @returns an answer when the idempotency key already has one
 * @throws WireError
 */
export async function admitRequest<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
): Promise<AdmittedRequest<Facts> | OutgoingResponse> {
  const taken: TakenPermit = { permit: undefined };
  try {
    const admitted = await admitByCurrentKey(services, incoming, rules, taken);
    if (admitted instanceof OutgoingResponse) leave(taken);
    return admitted;
  } catch (error) {
    leave(taken);
    throw error;
  }
}

/** The permit of a request. It stays when the request is checked again under the same limits, so that it counts once. */
interface TakenPermit {
  permit: Permit | undefined;
}

/** Gives up the permit of a request that is not sent. */
function leave(taken: TakenPermit): void {
  taken.permit?.release();
  taken.permit?.countTokens(0);
  taken.permit = undefined;
}

async function admitByCurrentKey<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
  taken: TakenPermit,
): Promise<AdmittedRequest<Facts> | OutgoingResponse> {
  const { authenticator } = services;
  let caller: Caller | undefined;
  let body: JsonObjectBody | undefined;
  for (;;) {
    try {
      caller ??= await authenticate(services, incoming);
      body ??= await readBody(services, incoming, caller);
      const admitted = await admit(services, incoming, rules, { caller, body, taken });
      if (admitted instanceof OutgoingResponse) await authenticator.confirm(incoming.header);
      return admitted;
    } catch (error) {
      if (error instanceof KeyChangedError) {
        const before = caller;
        caller = await authenticator.confirm(incoming.header);
        if (before && !hasSameLimits(before.key, caller.key)) leave(taken);
        continue;
      }
      if (!(error instanceof WireError)) throw error;
      const current = await confirmKeyAfter(error, services, incoming);
      const isChanged = caller && current && current.key.revision !== caller.key.revision;
      // A body is read once. What the ledger refused, it refused by the key's current settings.
      if (!isChanged || !body || error.status === 402) throw error;
      caller = current;
    }
  }
}

/**
 * Confirms the key of a request that was refused before the ledger checked it: a revoked key must get a 401 and no other
 * error.
 * @returns the caller with the key's current settings; undefined when they are not known
 */
async function confirmKeyAfter(
  { status }: WireError,
  { authenticator }: GatewayServices,
  incoming: IncomingRequest,
): Promise<Caller | undefined> {
  if (status === 401) return undefined;
  try {
    // Rate-limited requests of a key cause one database query per second.
    return status === 429
      ? await authenticator.recheck(incoming.header)
      : await authenticator.confirm(incoming.header);
  } catch (error) {
    if (error instanceof WireError) throw error;
    return undefined;
  }
}

async function admit<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
  request: { readonly caller: Caller; readonly body: JsonObjectBody; readonly taken: TakenPermit },
): Promise<AdmittedRequest<Facts> | OutgoingResponse> {
  const parsed = await parseRequest(services, incoming, rules, request);
  if (parsed instanceof OutgoingResponse) return parsed;
  const { caller, facts, resolution, idempotency, hedgeDelayMs } = parsed;
  const permit = (request.taken.permit ??= await services.limiter.acquire(
    caller,
    estimateInputTokens(facts),
  ));
  const maxTokensOf = (candidate: Candidate) => rules.maxTokensOf(candidate, facts);
  const { wire } = rules;
  const holdRequest: HoldRequest = {
    caller,
    facts,
    wire,
    candidates: resolution.candidates,
    maxTokensOf,
    idempotency,
    hedgeDelayMs,
    tag: services.tags.admit(caller.key.id, readTag(wire, parsed.value)),
    onTokens: permit.countTokens,
  };
  let hold: Hold | OutgoingResponse;
  try {
    hold = await Hold.place(services.ledger, incoming, holdRequest);
  } catch (error) {
    if (error instanceof InvalidKeyError) throw invalidApiKey();
    throw error;
  }
  if (hold instanceof OutgoingResponse) return hold;
  const finished = Promise.withResolvers<void>();
  const abortController = new AbortController();
  let isOpen = true;
  let endDrain: (() => void) | undefined;
  const detachClient = () => {
    if (!isOpen || endDrain) return;
    const abortUpstream = () => abortController.abort(new ClientGone('for longer than drain_secs'));
    const timer = setTimeout(abortUpstream, services.limits.drainSecs * 1000);
    const removeDrain = services.upstreamDrains.add(
      caller.key.id,
      abortUpstream,
      limitsOf(caller.key, services.limits).concurrency,
    );
    endDrain = () => {
      clearTimeout(timer);
      removeDrain();
    };
    // The hold stays until the answer is settled; the place in the concurrency limit is freed now.
    permit.release();
  };
  if (incoming.disconnectSignal.aborted) detachClient();
  else incoming.disconnectSignal.addEventListener('abort', detachClient, { once: true });
  services.inFlight.add(finished.promise, () => abortController.abort(stoppingError()), incoming);
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

async function authenticate(
  { authenticator }: GatewayServices,
  { header, span }: IncomingRequest,
): Promise<Caller> {
  const caller = await authenticator.authenticate(header);
  if (span) {
    span.attributes.keyId = caller.key.id;
    span.attributes.accountId = caller.accountId;
  }
  return caller;
}

const readBody = (
  { limits, bodyMemory }: GatewayServices,
  incoming: IncomingRequest,
  { key }: Caller,
): Promise<JsonObjectBody> => readJsonObject(incoming, limits.maxBodyBytes, bodyMemory.open(key.id));

async function parseRequest<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
  { caller, body }: { readonly caller: Caller; readonly body: JsonObjectBody },
): Promise<ParsedRequest<Facts> | OutgoingResponse> {
  const { receipt, span } = incoming;
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
  const hedgeDelayMs = parseHedgeDelay(incoming.header, resolution.model);
  // Deployments and fallbacks that cannot serve the request are left out.
  const checkCandidate = rules.candidateCheck(facts, body);
  const refusals = new Map<Candidate, WireError>();
  for (const candidate of resolution.candidates)
    try {
      checkCandidate(candidate);
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
    hedgeDelayMs,
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
