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

/** A request that is known, and may be served. */
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
  /** Whether the model can do it. @throws WireError 400 */
  readonly check: (candidate: Candidate, facts: Facts, body: JsonObjectBody) => void;
  readonly maxTokensOf: (candidate: Candidate, facts: Facts) => number;
}

/** A request whose money is held. */
export interface Opened<Facts extends RequestFacts> {
  readonly entered: Entered<Facts>;
  readonly purchase: Purchase;
  readonly maxTokensOf: (candidate: Candidate) => number;
  /** Aborted when the answer is no longer worth reading: the gateway stops, or the caller has been gone for long enough. */
  readonly givenUp: AbortSignal;
  /** The caller no longer takes its answer: its place is free, and what is read on is read for the settlement. Called once or more. */
  readonly left: () => void;
  /** Its answer is out and its money settled; called once or more. */
  readonly over: () => void;
}

/**
 * All that comes before a provider is asked: who, what, whether, and the money. @returns an answer where the request has
 * one already @throws WireError
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

/** The ledger checks the key when money is held. What ends before tells a key that was revoked meanwhile nothing else. */
async function confirmAfter(
  { status }: WireError,
  { authenticator }: GatewayParts,
  asked: Asked,
): Promise<void> {
  // Who sends too much is refused without the database.
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
    const gone = () => givenUp.abort(new ClientGone('for longer than anybody reads on'));
    const timer = setTimeout(gone, parts.limits.drainSecs * 1000);
    const leave = parts.drains.add(caller.key.id, gone);
    endDrain = () => {
      clearTimeout(timer);
      leave();
    };
    // Its hold stays until the answer is settled; its place is free.
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
  // Shown also where the rest of the body is refused.
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
  // A fallback that cannot do what is asked for is none.
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
