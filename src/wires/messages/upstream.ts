import { isRecord } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import { faultInStream, providerFault } from '../core/provider-faults.ts';
import type { UpstreamWire } from '../core/wire.ts';
import { MessagesReader, readMessage } from './reader.ts';
import { writeRequest } from './request.ts';

/** Anthropic's messages as a provider wire. */
export const anthropicMessages: UpstreamWire = {
  request: writeRequest,
  answer(text) {
    const events = readMessage(text);
    if (events) return events;
    const errorFields = readErrorFields(text);
    if (errorFields.message !== undefined || errorFields.type !== undefined)
      throw new UpstreamFailure(faultInStream(errorFields));
    const message = "The provider's response is not a message; try again.";
    const error = new WireError(502, 'upstream_error', message, { code: 'upstream_failed' });
    throw new UpstreamFailure({ error, isRetryable: true, isUnhealthy: true });
  },
  reader: () => new MessagesReader(),
  failure: (status, text, headers) => providerFault(status, readErrorFields(text), headers),
};

function readErrorFields(text: string): { readonly message?: unknown; readonly type?: unknown } {
  try {
    const body: unknown = JSON.parse(text);
    if (isRecord(body) && isRecord(body.error)) return { message: body.error.message, type: body.error.type };
  } catch {
    // An HTML page of a proxy contains nothing useful.
  }
  return {};
}
