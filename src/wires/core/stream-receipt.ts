import type { StreamReceipt } from './wire.ts';

/** The receipt at the end of a stream, as JSON on one line. */
export function streamReceiptJson({ cost, requestId, effectiveModel }: StreamReceipt): string {
  // The amounts are bigints, which JSON.stringify does not support.
  const components = Object.entries(cost.components).map(([name, amount]) => `"${name}":${amount}`);
  return (
    `{"cost_nanousd":${cost.total},"request_id":${JSON.stringify(requestId)},` +
    `"effective_model":${JSON.stringify(effectiveModel)},"components":{${components.join(',')}}}`
  );
}
