import type { GatewayError } from '../errors.ts';
import type { ClientWire } from '../wires/wire.ts';
import { type Receipt, receiptHeaders } from './receipt.ts';

const json = 'application/json; charset=utf-8';

/** Everywhere: what an answer is told by its type alone. */
const safe = { 'x-content-type-options': 'nosniff' };

export const jsonAnswer = (
  receipt: Receipt,
  status: number,
  body: string,
  more: Readonly<Record<string, string>> = {},
): Response =>
  new Response(body, {
    status,
    headers: { 'content-type': json, ...safe, ...receiptHeaders(receipt), ...more },
  });

export const streamAnswer = (receipt: Receipt, body: ReadableStream<Uint8Array>): Response =>
  new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      // Proxies would hold back what belongs on the screen now.
      'x-accel-buffering': 'no',
      ...safe,
      ...receiptHeaders(receipt),
    },
  });

type ErrorBody = ClientWire['errorBody'];
export const plainErrorBody: ErrorBody = (error) => ({ error: error.body });

export function errorAnswer(receipt: Receipt, error: GatewayError, errorBody: ErrorBody): Response {
  // A stream that did not begin: its answer has a cost like any other.
  receipt.cost ??= { total: 0n, components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n } };
  return jsonAnswer(receipt, error.status, JSON.stringify(errorBody(error, receipt.requestId)), {
    // OpenAI's and Anthropic's clients would ask again, and be billed again.
    ...(receipt.cost.total > 0n ? { 'x-should-retry': 'false' } : {}),
    ...error.headers,
  });
}
