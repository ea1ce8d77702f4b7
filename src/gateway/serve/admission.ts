import type { Caller, Resolution } from '../access/types.ts';
import { hasSameLimits, limitsOf, type Permit } from '../access/limits.ts';
import type { Hook } from '../hooks/types.ts';
import type { FoundAnswer } from '../cache/response-cache.ts';
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
import { answerHookIds, checkRequest, hooksFor } from './hook-checks.ts';
import { CacheSlot, writeCachedAnswer } from './cache-slot.ts';
import type { Receipt } from './receipt.ts';
import { type JsonObjectBody, readJsonObject } from './request-body.ts';
import { ClientGone } from '../../http/error.ts';
import { readTag, tagHeader } from '../usage/tags.ts';
import { noUsage } from './relay.ts';

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
  /** Whether the answer depends on nothing but the request. */
  readonly isCacheable: (candidate: Candidate, body: JsonObjectBody) => boolean;
}

/** A request whose cost is held in the ledger. */
export interface AdmittedRequest<Facts extends RequestFacts> {
  readonly parsed: ParsedRequest<Facts>;
  readonly hold: Hold;
  /** Undefined when the request does not use the cache of answers. */
  readonly cacheSlot: CacheSlot | undefined;
  /** The hooks that check the request and its answer. */
  readonly hooks: readonly Hook[];
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
      // The ledger has checked the key of an answer that was charged.
      if (admitted instanceof OutgoingResponse && incoming.receipt.reason !== 'cached')
        await authenticator.confirm(incoming.header);
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
  const received = await parseRequest(services, incoming, rules, request);
  if (received instanceof OutgoingResponse) return received;
  const permit = (request.taken.permit ??= await services.limiter.acquire(
    received.caller,
    estimateInputTokens(received.facts),
  ));
  const hooks = hooksFor(services.hooks(), received.resolution.candidates);
  const parsed = await applyHooks(services, incoming, rules, { hooks, received });
  if (parsed instanceof OutgoingResponse) return parsed;
  const { caller, facts, resolution } = parsed;
  const maxTokensOf = (candidate: Candidate) => rules.maxTokensOf(candidate, facts);
  const { wire } = rules;
  const { candidates, model } = resolution;
  const holdRequest: HoldRequest = {
    caller,
    facts,
    wire,
    candidates,
    maxTokensOf,
    idempotency: parsed.idempotency,
    hedgeDelayMs: parsed.hedgeDelayMs,
    tag: services.tags.admit(caller.key.id, readTag(wire, received.value, incoming.header(tagHeader))),
    onTokens: permit.countTokens,
  };
  const cacheSlot = CacheSlot.open(services, incoming, {
    accountId: caller.accountId,
    wire,
    model: model.id,
    candidates,
    hooks: answerHookIds(hooks),
    text: parsed.text,
    isCacheable: () => candidates.every((candidate) => rules.isCacheable(candidate, parsed)),
  });
  const found = await cacheSlot?.find();
  if (cacheSlot && found) return await answerFromCache(services, incoming, holdRequest, { cacheSlot, found });
  const hold = await placeHold(services, incoming, holdRequest);
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
    cacheSlot,
    hooks,
    maxTokensOf,
    abortSignal: abortController.signal,
    detachClient,
    finish,
    finished: finished.promise,
  };
}

/** Asks the hooks, and reads the request again where they changed it. */
async function applyHooks<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
  { hooks, received }: { readonly hooks: readonly Hook[]; readonly received: ParsedRequest<Facts> },
): Promise<ParsedRequest<Facts> | OutgoingResponse> {
  const { caller, facts, resolution, idempotency } = received;
  const { wire } = rules;
  const isSigned =
    wire === 'messages' &&
    resolution.candidates.every(({ model }) => model.provider.wire === 'anthropic-messages');
  const checked = { hooks, caller, wire, model: resolution.model.id, stream: facts.stream, isSigned };
  const body = await checkRequest(services, incoming, checked, received);
  return body
    ? await parseRequest(services, incoming, rules, { caller, body, claimed: { idempotency, resolution } })
    : received;
}

async function placeHold(
  { ledger }: GatewayServices,
  incoming: IncomingRequest,
  holdRequest: HoldRequest,
): Promise<Hold | OutgoingResponse> {
  try {
    return await Hold.place(ledger, incoming, holdRequest);
  } catch (error) {
    if (error instanceof InvalidKeyError) throw invalidApiKey();
    throw error;
  }
}

/** Charges the operator's price for a stored answer and gives it. */
async function answerFromCache(
  services: GatewayServices,
  incoming: IncomingRequest,
  request: HoldRequest,
  { cacheSlot, found }: { readonly cacheSlot: CacheSlot; readonly found: FoundAnswer },
): Promise<OutgoingResponse> {
  const { receipt, span } = incoming;
  const candidate =
    request.candidates.find(({ model }) => model.provider.id === found.provider) ?? request.candidates[0];
  if (!candidate) throw new Error('a request needs at least one candidate');
  const { reason } = receipt;
  nameCandidate(receipt, candidate);
  receipt.pricingIdentity = found.pricingIdentity;
  const cost = cacheSlot.hitCost(found, candidate);
  const hold = await placeHold(services, incoming, { ...request, candidates: [candidate], fixedCost: cost });
  if (hold instanceof OutgoingResponse) return hold;
  receipt.reason = 'cached';
  if (span) {
    span.attributes.effectiveModel = candidate.model.id;
    span.attributes.cached = true;
  }
  const { wire, facts } = request;
  const answer = writeCachedAnswer(incoming, found, { wire, stream: facts.stream, cost });
  const end = { status: 200, outcome: 'completed' } as const;
  try {
    await hold.settle(candidate, 0, noUsage, {
      ...end,
      ...(hold.storesAnswer ? { answer: { status: 200, headers: answer.headers, body: answer.body } } : {}),
    });
  } catch (error) {
    receipt.reason = reason;
    const charged = await hold.release(candidate, 0, { status: 503, outcome: 'failed' });
    // The settlement may have been committed: who is charged gets the answer.
    if (charged === 0n) throw error;
    receipt.reason = 'cached';
  }
  return answer;
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

interface RequestToParse {
  readonly caller: Caller;
  readonly body: JsonObjectBody;
  /**
   * Set where hooks changed the body: the idempotency key belongs to the body that the caller sent, and no other models may
   * answer than those whose hooks were asked.
   */
  readonly claimed?: Pick<ParsedRequest<RequestFacts>, 'idempotency' | 'resolution'>;
}

async function parseRequest<Facts extends RequestFacts>(
  services: GatewayServices,
  incoming: IncomingRequest,
  rules: RequestRules<Facts>,
  { caller, body, claimed }: RequestToParse,
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
  const idempotency = claimed
    ? claimed.idempotency
    : parseIdempotencyKey(incoming.header('idempotency-key'), incoming.route, body.text);
  if (idempotency && !claimed) {
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
  const isChecked = ({ model: { id } }: Candidate) =>
    !claimed || claimed.resolution.candidates.some((one) => one.model.id === id);
  const usable = resolution.candidates.filter(
    (candidate) => !refusals.has(candidate) && isChecked(candidate),
  );
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
