import type { HttpError } from '../../http/error.ts';
import { WireError } from '../core/error.ts';
import { errorTypes } from '../core/error-types.ts';
import { streamReceiptJson } from '../core/stream-receipt.ts';
import type { StreamReceipt } from '../core/wire.ts';

/** Writes an SSE frame. Clients of this wire require the event name and the type in the data. */
export const sseFrame = (data: { readonly type: string; readonly [member: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

/** Writes an error body. Errors of the gateway have the members of its other wires and error types of its own. */
export const writeErrorBody = (error: HttpError, requestId?: string) => ({
  type: 'error',
  error: error instanceof WireError ? error.body : toAnthropicError(error),
  request_id: requestId ?? null,
});

/** On this error code the official client resends the request with its whole conversation. */
export const threadUnsupportedCode = 'thread_unsupported_request';

const toAnthropicError = ({ status, code, message, param, violations }: HttpError) => ({
  type: errorTypes(status).anthropic,
  message,
  details: {
    error_code: code,
    ...(param === undefined ? {} : { param }),
    ...(code === threadUnsupportedCode ? { unsupported: ['thread'] } : {}),
    ...(violations ? { violations } : {}),
  },
});

export const errorFrame = (error: HttpError, requestId: string): string =>
  sseFrame(writeErrorBody(error, requestId));

/**
 * Writes the receipt after the end of the answer. Its data has type `ping`: clients that do not know the event name
 * dispatch on the type of the data, and all of them ignore pings.
 */
export const receiptFrame = (receipt: StreamReceipt): string =>
  `event: svc_receipt\ndata: {"type":"ping","svc_receipt":${streamReceiptJson(receipt)}}\n\n`;
