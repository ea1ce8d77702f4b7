import type { Caller, Resolution } from '../access/types.ts';
import type { Candidate } from '../catalog/types.ts';
import { invalidApiKey } from '../errors.ts';
import { WireError } from '../../wires/core/error.ts';
import type { RequestFacts } from '../../wires/core/wire.ts';
import { Answer } from '../../http/deliver.ts';
import type { Asked } from './asked.ts';
import { type IdempotencyKey, idempotencyKey, replay } from './idempotency.ts';
import { stopping } from './in-flight.ts';
import { refuseLookalikes } from './lookalikes.ts';
import type { GatewayParts } from './parts.ts';
import { endpointOf, KeyInvalid, type Order, Purchase } from './purchase.ts';
import { type JsonObjectBody, readJsonObject } from './request-body.ts';
import { ClientGone } from '../../http/error.ts';

/** An authenticated and validated request with the candidates that can serve it. */
export interface Entered<Facts extends RequestFacts> extends JsonObjectBody {
  readonly caller: Caller;
  readonly facts: Facts;
  readonly resolution: Resolution;
  readonly idempotency: IdempotencyKey | undefined;
}

export interface Reading<Facts extends RequestFacts> {
  readonly wire: string;
  /** @throws WireError 400 */
  readonly facts: (body: JsonObjectBody) => Facts;
  /** Checks that a candidate can serve the request. @throws WireError 400 */
  readonly check: (candidate: Candidate, facts: Facts, body: JsonObjectBody) => void;
  readonly maxTokensOf: (candidate: Candidate, facts: Facts) => number;
}

/** A request whose cost is held in the ledger. */
export interface Opened<Facts extends RequestFacts> {
  readonly entered: Entered<Facts>;
  readonly purchase: Purchase;
  readonly maxTokensOf: (candidate: Candidate) => number;
  /** Aborts the upstream request: the gateway stops, or the caller disconnected longer ago than `drainSecs`. */
  readonly givenUp: AbortSignal;
  /**
   * Reports that the caller disconnected: frees its place in the concurrency limit; the rest of the answer is read for its
   * usage. May be called more than once.
   */
  readonly left: () => void;
  /** Reports that the answer is sent and its hold settled. May be called more than once. */
  readonly over: () => void;
}

/**
 * Does everything that comes before the upstream request: authentication, parsing, model resolution, limits and the hold.
 * @returns an answer when the idempotency key already has one
 * @throws WireError
 */
export async function open<Facts extends RequestFacts>(
  parts: GatewayParts,
  asked: Asked,
  reading: Reading<Facts>,
): Promise<Opened<Facts> | Answer> {
  try {
    const opened = await begin(parts, asked, reading);
    if (opened instanceof Answer) await parts.authenticator.confirm(asked.header);
    return opened;
  } catch (error) {
    if (error instanceof WireError) await confirmAfter(error, parts, asked);
    throw error;
  }
}

/**
 * Confirms the key of a request that was refused before the ledger checked it: a revoked key must get a 401 and no other
 * error.
 */
async function confirmAfter(
  { status }: WireError,
  { authenticator }: GatewayParts,
  asked: Asked,
): Promise<void> {
  // A rate-limited request causes no database query.
  if (status === 401 || status === 429) return;
  try {
    await authenticator.confirm(asked.header);
  } catch (error) {
    if (error instanceof WireError) throw error;
  }
}

async function begin<Facts extends RequestFacts>(
  parts: GatewayParts,
  asked: Asked,
  reading: Reading<Facts>,
): Promise<Opened<Facts> | Answer> {
  const entered = await enter(parts, asked, reading);
  if (entered instanceof Answer) return entered;
  const { caller, facts, resolution, idempotency } = entered;
  const permit = await parts.limiter.enter(caller);
  const maxTokensOf = (candidate: Candidate) => reading.maxTokensOf(candidate, facts);
  const { wire } = reading;
  const order: Order = { caller, facts, wire, candidates: resolution.candidates, maxTokensOf, idempotency };
  let purchase: Purchase | Answer;
  try {
    purchase = await Purchase.open(parts.ledger, asked, order);
  } catch (error) {
    permit.leave();
    if (error instanceof KeyInvalid) throw invalidApiKey();
    throw error;
  }
  if (purchase instanceof Answer) {
    permit.leave();
    return purchase;
  }
  const ended = Promise.withResolvers<void>();
  const givenUp = new AbortController();
  let isOpen = true;
  let endDrain: (() => void) | undefined;
  const left = () => {
    if (!isOpen || endDrain) return;
    const gone = () => givenUp.abort(new ClientGone('for longer than drain_secs'));
    const timer = setTimeout(gone, parts.limits.drainSecs * 1000);
    const leave = parts.drains.add(caller.key.id, gone);
    endDrain = () => {
      clearTimeout(timer);
      leave();
    };
    // The hold stays until the answer is settled; the place in the concurrency limit is freed now.
    permit.leave();
  };
  if (asked.gone.aborted) left();
  else asked.gone.addEventListener('abort', left, { once: true });
  parts.inFlight.add(ended.promise, () => givenUp.abort(stopping()));
  const over = () => {
    if (!isOpen) return;
    isOpen = false;
    endDrain?.();
    asked.gone.removeEventListener('abort', left);
    permit.leave();
    ended.resolve();
  };
  return { entered, purchase, maxTokensOf, givenUp: givenUp.signal, left, over };
}

async function enter<Facts extends RequestFacts>(
  parts: GatewayParts,
  asked: Asked,
  reading: Reading<Facts>,
): Promise<Entered<Facts> | Answer> {
  const { receipt, told } = asked;
  const caller = await parts.authenticator.authenticate(asked.header);
  if (told) {
    told.facts.keyId = caller.key.id;
    told.facts.accountId = caller.accountId;
  }
  const body = await readJsonObject(asked, parts.limits.maxBodyBytes, parts.bodies.open(caller.key.id));
  // Recorded first, so that the receipt names the model even when the rest of the body is invalid.
  const { model } = body.value;
  if (typeof model === 'string') {
    receipt.requestedModel = receipt.effectiveModel = model;
    if (told) told.facts.requestedModel = model.slice(0, 200);
  }
  refuseLookalikes(body.value);
  const facts = reading.facts(body);
  if (told) told.facts.stream = facts.stream;
  const idempotency = idempotencyKey(asked.header('idempotency-key'), asked.route, body.text);
  if (idempotency) {
    const { key, bodyHash } = idempotency;
    const found = await parts.ledger.claimed(caller.accountId, key, bodyHash);
    if (found) return replay(found);
  }
  const resolution = await parts.catalog.resolve(facts.model, {
    models: caller.key.models,
    own: (provider) => parts.credentials.find(caller.accountId, provider),
    fallbacks: fallbacksOf(asked.header('x-svc-fallback-models')),
  });
  const [first, ...others] = resolution.candidates;
  if (!first) throw new Error(`nothing serves ${facts.model}`);
  receipt.effectiveModel = first.model.id;
  receipt.reason = resolution.reason;
  receipt.endpoint = endpointOf(first);
  receipt.pricingIdentity = first.model.price.identity;
  reading.check(first, facts, body);
  // Fallbacks that cannot serve the request are left out.
  const fit = others.filter((candidate) => {
    try {
      reading.check(candidate, facts, body);
      return true;
    } catch (error) {
      if (error instanceof WireError) return false;
      throw error;
    }
  });
  return { ...body, caller, facts, resolution: { ...resolution, candidates: [first, ...fit] }, idempotency };
}

const fallbacksOf = (header: string | undefined): string[] =>
  header === undefined
    ? []
    : header
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '');
