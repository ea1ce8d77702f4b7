import type { Cost, ReceiptReason } from '../../wires/core/types.ts';
import { newRequestId } from '../../http/request-id.ts';

/** The receipt in the headers of every response. Its members are filled in while the request is handled. */
export interface Receipt {
  readonly requestId: string;
  /** Empty when the request names no model or could not be parsed. */
  requestedModel: string;
  /** The model that answered and was billed; before that, the preferred candidate. */
  effectiveModel: string;
  endpoint: string;
  /** The provider that answered; before that, the preferred one. Undefined when the request names no model. */
  provider: string | undefined;
  reason: ReceiptReason;
  /** Undefined on a stream: the headers are sent before the cost is known. */
  cost: Cost | undefined;
  /** Identity of the rate card, as `sha256:HEX`. */
  pricingIdentity: string | undefined;
}

export const zeroCost: Cost = {
  total: 0n,
  components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n },
};

export const newReceipt = (): Receipt => ({
  requestId: newRequestId(),
  requestedModel: '',
  effectiveModel: '',
  endpoint: 'credits',
  provider: undefined,
  reason: 'as_requested',
  cost: zeroCost,
  pricingIdentity: undefined,
});

export function receiptHeaders(receipt: Receipt): Record<string, string> {
  const { requestId, provider, cost, pricingIdentity } = receipt;
  const headers: Record<string, string> = {
    'x-svc-request-id': requestId,
    'request-id': requestId,
    'x-request-id': requestId,
    'x-svc-requested-model': toHeaderValue(receipt.requestedModel),
    'x-svc-effective-model': toHeaderValue(receipt.effectiveModel),
    'x-svc-endpoint': toHeaderValue(receipt.endpoint),
    'x-svc-receipt-reason': receipt.reason,
  };
  if (provider !== undefined) headers['x-svc-provider'] = toHeaderValue(provider);
  if (cost !== undefined) {
    headers['x-svc-cost-nanousd'] = String(cost.total);
    const { fresh, cache_write, cache_read, output } = cost.components;
    headers['x-svc-cost-components-nanousd'] =
      `fresh=${fresh},cache_write=${cache_write},cache_read=${cache_read},output=${output}`;
  }
  if (pricingIdentity !== undefined) headers['x-svc-pricing-identity'] = pricingIdentity;
  return headers;
}

/** A caller-chosen name as a header value: percent-encoded if needed, at most 200 characters of the name. */
const toHeaderValue = (text: string): string =>
  /^[\x21-\x7e]{0,200}$/.test(text) ? text : encodeURI(text.slice(0, 200).toWellFormed()).slice(0, 600);

/**
 * The cost of a request that another gateway settled by estimate, because it considered this gateway dead. An estimate
 * counts input only.
 */
export const inputOnlyCost = (charged: bigint): Cost => ({
  total: charged,
  components: { ...zeroCost.components, fresh: charged },
});

/** Reduces a cost to what the caller pays; the operator pays the rest. Output is reduced first, then input. */
export function capCost(cost: Cost, charged: bigint): Cost {
  let excess = cost.total - charged;
  if (excess <= 0n) return cost;
  const components = { ...cost.components };
  for (const name of ['output', 'fresh', 'cache_write', 'cache_read'] as const) {
    const reduction = excess < components[name] ? excess : components[name];
    components[name] -= reduction;
    excess -= reduction;
  }
  return { total: charged, components };
}
