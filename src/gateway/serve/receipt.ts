import type { Cost, CostLine, ReceiptReason } from '../../wires/core/types.ts';
import { statedComponents } from '../../wires/core/stream-receipt.ts';
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
    headers['x-svc-cost-components-nanousd'] = statedComponents(cost)
      .map(([name, amount]) => `${name}=${amount}`)
      .join(',');
    if (cost.tier) headers['x-svc-service-tier'] = cost.tier;
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

const reductionOrder = ['output', 'tools', 'hedge', 'fresh', 'cache_write', 'cache_read'] as const;

/** Reduces a cost to what the caller pays; the operator pays the rest. Output is reduced first, then input. */
export function capCost(cost: Cost, charged: bigint): Cost {
  let excess = cost.total - charged;
  if (excess <= 0n) return cost;
  const components = { ...cost.components };
  for (const name of reductionOrder) {
    const amount = components[name];
    if (amount === undefined) continue;
    const reduction = excess < amount ? excess : amount;
    components[name] = amount - reduction;
    excess -= reduction;
  }
  return {
    ...cost,
    total: charged,
    components,
    ...(cost.lines ? { lines: capLines(cost.lines, components) } : {}),
  };
}

/** Reduces lines to what remains of their components. */
function capLines(lines: readonly CostLine[], components: Cost['components']): CostLine[] {
  const left = new Map<keyof Cost['components'], bigint>();
  return lines.map((line) => {
    const component = componentOf(line);
    const available = left.get(component) ?? components[component] ?? 0n;
    const cost = line.cost < available ? line.cost : available;
    left.set(component, available - cost);
    return { ...line, cost };
  });
}

const componentOf = ({ item }: CostLine): keyof Cost['components'] =>
  item.endsWith('_input') ? 'fresh' : item.endsWith('_output') ? 'output' : 'tools';
