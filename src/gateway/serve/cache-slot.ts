import { cacheKey } from '../cache/cache-key.ts';
import type { CacheEntry, CachedAnswer, FoundAnswer } from '../cache/response-cache.ts';
import type { CachePolicy, HitPrice } from '../cache/types.ts';
import type { Candidate } from '../catalog/types.ts';
import type { Cost } from '../../wires/core/types.ts';
import { invalidRequest } from '../../wires/core/error.ts';
import { receiptFrame } from '../../wires/messages/frames.ts';
import { OutgoingResponse } from '../../http/deliver.ts';
import type { IncomingRequest } from './incoming-request.ts';
import type { GatewayServices } from './services.ts';
import { jsonAnswer, streamHeaders } from './answers.ts';
import { endpointOf } from './hold.ts';
import { zeroCost } from './receipt.ts';
import { receiptComment, wantsReceiptComment } from './receipt-comment.ts';
import type { ClientWireName, StreamReceipt } from '../../wires/core/wire.ts';

const headerName = 'x-svc-cache';
/** `on`: use the cache, where the model has one. `refresh`: ask a provider and store its answer. `off`: neither. */
const wishes = ['on', 'off', 'refresh'] as const;

/** What the caller wants of the cache; undefined: what the operator set. @throws WireError 400 */
export function parseCacheWish(header: IncomingRequest['header']): (typeof wishes)[number] | undefined {
  const value = header(headerName)?.trim();
  if (value === undefined) return undefined;
  const wish = wishes.find((one) => one === value);
  if (wish) return wish;
  throw invalidRequest(`${headerName} must be one of ${wishes.join(', ')}, got '${value.slice(0, 60)}'.`, {
    param: headerName,
  });
}

interface CacheableRequest {
  readonly accountId: string;
  readonly wire: string;
  /** Catalog id of the requested model. */
  readonly model: string;
  readonly candidates: readonly Candidate[];
  /** Identities of the hooks that answers pass. */
  readonly hooks: readonly string[];
  readonly text: string;
  /** Whether the answer depends on nothing but the request. */
  readonly isCacheable: () => boolean;
}

/** The place of one request in the cache. */
export class CacheSlot {
  readonly #services: GatewayServices;
  readonly #entry: CacheEntry;
  readonly #policy: CachePolicy;
  readonly #isRead: boolean;

  private constructor(services: GatewayServices, entry: CacheEntry, policy: CachePolicy, isRead: boolean) {
    this.#services = services;
    this.#entry = entry;
    this.#policy = policy;
    this.#isRead = isRead;
  }

  /** @returns undefined when the request does not use the cache @throws WireError 400 */
  static open(
    services: GatewayServices,
    { header }: IncomingRequest,
    { accountId, wire, model, candidates, hooks, text, isCacheable }: CacheableRequest,
  ): CacheSlot | undefined {
    const wish = parseCacheWish(header);
    const own = candidates.filter((one) => one.model.id === model);
    const policy = own[0]?.model.cache;
    if (!policy || policy.use === 'never' || wish === 'off') return undefined;
    if ((policy.use === 'on_request' && wish === undefined) || !isCacheable()) return undefined;
    const servedBy = own.map((one) =>
      JSON.stringify([
        endpointOf(one),
        one.model.provider.id,
        one.credential.kind === 'byok' ? one.credential.baseUrl : undefined,
        one.model.provider.baseUrls,
        one.model.upstream,
      ]),
    );
    const headers = Object.fromEntries(
      ['anthropic-version', 'anthropic-beta'].map((name) => [name, header(name)]),
    );
    const key = cacheKey({ accountId, wire, model, servedBy, headers, hooks }, text);
    return new CacheSlot(
      services,
      { key, accountId, model, ttlSecs: policy.ttlSecs },
      policy,
      wish !== 'refresh',
    );
  }

  async find(): Promise<FoundAnswer | undefined> {
    if (!this.#isRead) return undefined;
    const found = await this.#services.cache.find(this.#entry.key, this.#policy.ttlSecs);
    const { model } = this.#entry;
    this.#services.observer.onCacheLookup?.({ model, isHit: found !== undefined });
    return found;
  }

  /** What the found answer costs the caller. Answers of its own credentials are free. */
  hitCost({ costNanodollars }: FoundAnswer, { credential }: Candidate): Cost {
    return credential.kind === 'byok' ? zeroCost : costOfHit(this.#policy.hitPrice, costNanodollars);
  }

  /**
   * Stores a complete answer. That of a fallback is not stored: it would be given for the requested model long after that one
   * is well again.
   */
  put({ model }: Candidate, cost: Cost, body: string): void {
    if (model.id !== this.#entry.model) return;
    const answer: CachedAnswer = {
      body,
      provider: model.provider.id,
      pricingIdentity: model.price.identity,
      // A hedge is a cost of that request alone.
      costNanodollars: cost.total - (cost.components.hedge ?? 0n),
    };
    this.#services.cache.put(this.#entry, answer);
  }
}

/** A price of a hit, rounded up to a nanodollar. It counts as input read from a cache. */
function costOfHit(price: HitPrice, usualNanodollars: bigint): Cost {
  const total =
    'nanodollars' in price ? price.nanodollars : (usualNanodollars * BigInt(price.percent) + 99n) / 100n;
  return { total, components: { ...zeroCost.components, cache_read: total } };
}

/** Writes a stored answer for another request, with a receipt of its own. @throws WireError 400 */
export function writeCachedAnswer(
  { receipt, header }: IncomingRequest,
  found: FoundAnswer,
  { wire, stream, cost }: { readonly wire: string; readonly stream: boolean; readonly cost: Cost },
): OutgoingResponse<string> {
  const age = { age: String(found.ageSecs) };
  receipt.cost = cost;
  if (!stream) return jsonAnswer(receipt, 200, found.body, age);
  const { requestId, effectiveModel, reason } = receipt;
  const last = { requestId, effectiveModel, reason, cost };
  const end = wantsReceiptComment(header) ? receiptComment(wire as ClientWireName, last) : '';
  // The header of a stream names no cost.
  receipt.cost = undefined;
  const headers = { ...streamHeaders(receipt), ...age };
  return new OutgoingResponse(200, headers, found.body + receiptEvent(wire, last) + end);
}

/** The receipt that ends a stream of the messages wire; '' on others. */
const receiptEvent = (wire: string, receipt: StreamReceipt): string =>
  wire === 'messages' ? receiptFrame(receipt) : '';

/** The text of a stream without its receipt, which belongs to one request. @param end what `StreamWriter.end` wrote */
export function withoutReceipt(wire: string, end: string, receipt: StreamReceipt): string {
  const event = receiptEvent(wire, receipt);
  return event !== '' && end.endsWith(event) ? end.slice(0, -event.length) : end;
}
