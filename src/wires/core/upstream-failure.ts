import type { WireError } from './error.ts';
import type { UpstreamFault } from './wire.ts';

/**
 * A provider could not be reached, refused the request, sent an invalid response, or broke off before anything was sent
 * to the caller.
 */
export class UpstreamFailure extends Error implements UpstreamFault {
  readonly error: WireError;
  readonly again: boolean;
  readonly unwell: boolean;
  readonly retryAfterMs?: number;

  constructor({ error, again, unwell, retryAfterMs }: UpstreamFault, options?: ErrorOptions) {
    super(error.message, options);
    this.name = 'UpstreamFailure';
    this.error = error;
    this.again = again;
    this.unwell = unwell;
    if (retryAfterMs !== undefined) this.retryAfterMs = retryAfterMs;
  }
}
