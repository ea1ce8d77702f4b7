import { Answer, type LiveFrames } from '../../http/deliver.ts';
import { errorObject, type WireError } from '../../wires/core/error.ts';
import { errorBodyOf } from '../../wires/messages/frames.ts';
import type { ClientWire } from '../../wires/core/wire.ts';
import { noCost, type Receipt, receiptHeaders } from './receipt.ts';

const json = 'application/json; charset=utf-8';

/** Everywhere: what an answer is told by its type alone. */
const safe = { 'x-content-type-options': 'nosniff' };

export const jsonAnswer = (
  receipt: Receipt,
  status: number,
  body: string,
  more: Readonly<Record<string, string>> = {},
): Answer<string> =>
  new Answer(status, { 'content-type': json, ...safe, ...receiptHeaders(receipt), ...more }, body);

export const streamHeaders = (receipt: Receipt): Record<string, string> => ({
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Proxies would hold back what belongs on the screen now.
  'x-accel-buffering': 'no',
  ...safe,
  ...receiptHeaders(receipt),
});

export const streamAnswer = (receipt: Receipt, body: LiveFrames): Answer =>
  new Answer(200, streamHeaders(receipt), body);

type ErrorBody = ClientWire['errorBody'];
export const plainErrorBody: ErrorBody = (error) => ({ error: errorObject(error) });

/** How the wire of a path writes what no route of it answers. @param path below the base path */
export const errorBodyAt = (path: string): ErrorBody =>
  /^\/v1\/messages(?:\/|$)/.test(path) ? errorBodyOf : plainErrorBody;

export function errorAnswer(receipt: Receipt, error: WireError, errorBody: ErrorBody): Answer<string> {
  // A stream that did not begin: its answer has a cost like any other.
  receipt.cost ??= noCost;
  return jsonAnswer(receipt, error.status, JSON.stringify(errorBody(error, receipt.requestId)), {
    // OpenAI's and Anthropic's clients would ask again, and be billed again.
    ...(receipt.cost.total > 0n ? { 'x-should-retry': 'false' } : {}),
    ...error.headers,
  });
}
