import type { Cost } from './types.ts';
import type { StreamReceipt } from './wire.ts';

/** The components that receipts state: those of tokens, and others that are not 0. */
export function statedComponents({ components }: Cost): (readonly [name: string, amount: bigint])[] {
  const { fresh, cache_write, cache_read, output, tools = 0n, hedge = 0n } = components;
  const extras = Object.entries({ tools, hedge }).filter(([, amount]) => amount !== 0n);
  return [...Object.entries({ fresh, cache_write, cache_read, output }), ...extras];
}

/** The receipt at the end of a stream, as JSON on one line. */
export function streamReceiptJson({ cost, requestId, effectiveModel }: StreamReceipt): string {
  // The amounts are bigints, which JSON.stringify does not support.
  const components = statedComponents(cost).map(([name, amount]) => `"${name}":${amount}`);
  const lines = cost.lines?.map(
    ({ item, quantity, cost: amount }) =>
      `{"item":"${item}","quantity":${quantity},"cost_nanousd":${amount}}`,
  );
  return (
    `{"cost_nanousd":${cost.total},"request_id":${JSON.stringify(requestId)},` +
    `"effective_model":${JSON.stringify(effectiveModel)},"components":{${components.join(',')}}` +
    `${lines ? `,"lines":[${lines.join(',')}]` : ''}${cost.tier ? `,"service_tier":"${cost.tier}"` : ''}}`
  );
}
