import { invalidRequest } from '../../wires/core/error.ts';
import { streamReceiptJson } from '../../wires/core/stream-receipt.ts';
import type { ClientWireName, StreamReceipt } from '../../wires/core/wire.ts';

const name = 'x-svc-stream-receipt';

/**
 * Whether the caller asks for a receipt at the end of its stream. Only then is it sent: some programs that read streams without a
 * client library fail at comments.
 * @throws WireError 400
 */
export function wantsReceiptComment(header: (name: string) => string | undefined): boolean {
  const value = header(name)?.trim();
  if (value === undefined || value === 'comment') return value !== undefined;
  throw invalidRequest(`${name} must be 'comment', got '${value.slice(0, 60)}'.`, { param: name });
}

/** The receipt as an SSE comment, which clients skip. The messages wire has an event for it. */
export const receiptComment = (wire: ClientWireName, receipt: StreamReceipt): string =>
  wire === 'messages' ? '' : `: receipt ${streamReceiptJson(receipt)}\n\n`;
