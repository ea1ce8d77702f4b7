import { OutgoingResponse, type FrameSource } from '../../http/deliver.ts';
import { errorObject, type WireError } from '../../wires/core/error.ts';
import { writeErrorBody } from '../../wires/messages/frames.ts';
import type { ClientWire } from '../../wires/core/wire.ts';
import { zeroCost, type Receipt, receiptHeaders } from './receipt.ts';

const jsonMediaType = 'application/json; charset=utf-8';

/** Sent with every answer: browsers must not guess another media type. */
const noSniffHeaders = { 'x-content-type-options': 'nosniff' };

export const jsonAnswer = (
  receipt: Receipt,
  status: number,
  body: string,
  extraHeaders: Readonly<Record<string, string>> = {},
): OutgoingResponse<string> =>
  new OutgoingResponse(
    status,
    { 'content-type': jsonMediaType, ...noSniffHeaders, ...receiptHeaders(receipt), ...extraHeaders },
    body,
  );

export const streamHeaders = (receipt: Receipt): Record<string, string> => ({
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Tells nginx and similar proxies not to buffer the stream.
  'x-accel-buffering': 'no',
  ...noSniffHeaders,
  ...receiptHeaders(receipt),
});

export const streamAnswer = (receipt: Receipt, body: FrameSource): OutgoingResponse =>
  new OutgoingResponse(200, streamHeaders(receipt), body);

type ErrorBody = ClientWire['errorBody'];
export const openaiErrorBody: ErrorBody = (error) => ({ error: errorObject(error) });

/** Returns the error format of a path's wire, for errors that no route handles. @param path below the base path */
export const errorBodyForPath = (path: string): ErrorBody =>
  /^\/v1\/messages(?:\/|$)/.test(path) ? writeErrorBody : openaiErrorBody;

export function errorAnswer(
  receipt: Receipt,
  error: WireError,
  errorBody: ErrorBody,
): OutgoingResponse<string> {
  // A stream that failed before its first frame: its error answer states a cost, as every buffered answer does.
  receipt.cost ??= zeroCost;
  return jsonAnswer(receipt, error.status, JSON.stringify(errorBody(error, receipt.requestId)), {
    // Without it, OpenAI's and Anthropic's clients would retry, and the caller would be billed twice.
    ...(receipt.cost.total > 0n ? { 'x-should-retry': 'false' } : {}),
    ...error.headers,
  });
}
