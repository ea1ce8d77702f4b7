import type { HttpError } from '../../http/error.ts';
import { WireError } from '../core/error.ts';
import { errorTypes } from '../core/error-types.ts';
import type { StreamReceipt } from '../core/wire.ts';

/** Clients of this wire want the event's name and the type of its data. */
export const frame = (data: { readonly type: string; readonly [member: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

/** The gateway says all of an error in the members that its other wires have, and has types of its own. */
export const errorBodyOf = (error: HttpError, requestId?: string) => ({
  type: 'error',
  error: error instanceof WireError ? error.body : detailed(error),
  request_id: requestId ?? null,
});

/** The code at which the official client sends the same request again with its whole conversation. */
export const noThreads = 'thread_unsupported_request';

const detailed = ({ status, code, message, param, violations }: HttpError) => ({
  type: errorTypes(status).anthropic,
  message,
  details: {
    error_code: code,
    ...(param === undefined ? {} : { param }),
    ...(code === noThreads ? { unsupported: ['thread'] } : {}),
    ...(violations ? { violations } : {}),
  },
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
