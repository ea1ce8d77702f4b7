import { Answer, type LiveFrames } from '../../http/deliver.ts';
import { errorObject, type WireError } from '../../wires/core/error.ts';
import { errorBodyOf } from '../../wires/messages/frames.ts';
import type { ClientWire } from '../../wires/core/wire.ts';
import { noCost, type Receipt, receiptHeaders } from './receipt.ts';

const json = 'application/json; charset=utf-8';

/** Sent with every answer: browsers must not guess another media type. */
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
  // Tells nginx and similar proxies not to buffer the stream.
  'x-accel-buffering': 'no',
  ...safe,
  ...receiptHeaders(receipt),
});

export const streamAnswer = (receipt: Receipt, body: LiveFrames): Answer =>
  new Answer(200, streamHeaders(receipt), body);

type ErrorBody = ClientWire['errorBody'];
export const plainErrorBody: ErrorBody = (error) => ({ error: errorObject(error) });

/** Returns the error format of a path's wire, for errors that no route handles. @param path below the base path */
export const errorBodyAt = (path: string): ErrorBody =>
  /^\/v1\/messages(?:\/|$)/.test(path) ? errorBodyOf : plainErrorBody;

export function errorAnswer(receipt: Receipt, error: WireError, errorBody: ErrorBody): Answer<string> {
  // A stream that failed before its first frame: its error answer states a cost, as every buffered answer does.
  receipt.cost ??= noCost;
  return jsonAnswer(receipt, error.status, JSON.stringify(errorBody(error, receipt.requestId)), {
    // Without it, OpenAI's and Anthropic's clients would retry, and the caller would be billed twice.
    ...(receipt.cost.total > 0n ? { 'x-should-retry': 'false' } : {}),
    ...error.headers,
  });
}
