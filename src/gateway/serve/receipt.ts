import type { Cost, ReceiptReason } from '../../wires/core/types.ts';
import { newRequestId } from '../../http/request-id.ts';

/** What every response says of the request that it answers; filled in as it becomes known. */
export interface Receipt {
  readonly requestId: string;
  /** Empty: the request named none, or it could not be read. */
  requestedModel: string;
  /** Of what answered and was billed; until then, what would. */
  effectiveModel: string;
  endpoint: string;
  reason: ReceiptReason;
  /** Undefined on a stream, whose cost is not known when its head is sent. */
  cost: Cost | undefined;
  /** Of the rate card. */
  pricingIdentity: string | undefined;
}

export const noCost: Cost = {
  total: 0n,
  components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n },
};

export const newReceipt = (): Receipt => ({
  requestId: newRequestId(),
  requestedModel: '',
  effectiveModel: '',
  endpoint: 'credits',
  reason: 'as_requested',
  cost: noCost,
  pricingIdentity: undefined,
});

export function receiptHeaders(receipt: Receipt): Record<string, string> {
  const { requestId, cost, pricingIdentity } = receipt;
  const headers: Record<string, string> = {
    'x-svc-request-id': requestId,
    'request-id': requestId,
    'x-request-id': requestId,
    'x-svc-requested-model': headerText(receipt.requestedModel),
    'x-svc-effective-model': headerText(receipt.effectiveModel),
    'x-svc-endpoint': headerText(receipt.endpoint),
    'x-svc-receipt-reason': receipt.reason,
  };
  if (cost !== undefined) {
    headers['x-svc-cost-nanousd'] = String(cost.total);
    const { fresh, cache_write, cache_read, output } = cost.components;
    headers['x-svc-cost-components-nanousd'] =
      `fresh=${fresh},cache_write=${cache_write},cache_read=${cache_read},output=${output}`;
  }
  if (pricingIdentity !== undefined) headers['x-svc-pricing-identity'] = pricingIdentity;
  return headers;
}

/** What a header can carry of a name that a caller chose; 200 characters of it. */
const headerText = (text: string): string =>
  /^[\x21-\x7e]{0,200}$/.test(text) ? text : encodeURI(text.slice(0, 200).toWellFormed()).slice(0, 600);

/** What was paid where others took this gateway for dead, and settled by estimate before it did: that is input. */
export const estimatedOf = (charged: bigint): Cost => ({
  total: charged,
  components: { ...noCost.components, fresh: charged },
});

/** What the caller pays, where the house pays the rest: less output first, then less input. */
export function chargedOf(cost: Cost, charged: bigint): Cost {
  let over = cost.total - charged;
  if (over <= 0n) return cost;
  const components = { ...cost.components };
  for (const name of ['output', 'fresh', 'cache_write', 'cache_read'] as const) {
    const less = over < components[name] ? over : components[name];
    components[name] -= less;
    over -= less;
  }
  return { total: charged, components };
}
