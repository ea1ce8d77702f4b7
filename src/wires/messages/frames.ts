import type { HttpError } from '../../http/error.ts';
import { errorObject } from '../core/error.ts';
import type { StreamReceipt } from '../core/wire.ts';

/** Clients of this wire want the event's name and the type of its data. */
export const frame = (data: { readonly type: string; readonly [member: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

export const errorBodyOf = (error: HttpError, requestId: string) => ({
  type: 'error',
  error: errorObject(error),
  request_id: requestId,
});

export const errorFrame = (error: HttpError, requestId: string): string =>
  frame(errorBodyOf(error, requestId));

/**
 * What was settled, after the end of the answer. Its data says `ping`: clients that do not know the event's name
 * judge by the type of the data, and all of them let a ping pass.
 */
export function receiptFrame({ cost, requestId, effectiveModel }: StreamReceipt): string {
  // Integers of any size; JSON.stringify takes no bigint.
  const components = Object.entries(cost.components).map(([name, amount]) => `"${name}":${amount}`);
  return (
    `event: svc_receipt\ndata: {"type":"ping","svc_receipt":{"cost_nanousd":${cost.total},` +
    `"request_id":${JSON.stringify(requestId)},"effective_model":${JSON.stringify(effectiveModel)},` +
    `"components":{${components.join(',')}}}}\n\n`
  );
}
