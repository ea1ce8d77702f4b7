import type { WireError } from './error.ts';
import type { UpstreamFault } from './wire.ts';

/**
 * A provider could not be reached, refused the request, sent an invalid response, or broke off before anything was sent
 * to the caller.
 */
export class UpstreamFailure extends Error implements UpstreamFault {
  readonly error: WireError;
  readonly isRetryable: boolean;
  readonly isUnhealthy: boolean;
  readonly retryAfterMs?: number;

  constructor({ error, isRetryable, isUnhealthy, retryAfterMs }: UpstreamFault, options?: ErrorOptions) {
    super(error.message, options);
    this.name = 'UpstreamFailure';
    this.error = error;
    this.isRetryable = isRetryable;
    this.isUnhealthy = isUnhealthy;
    if (retryAfterMs !== undefined) this.retryAfterMs = retryAfterMs;
  }
}
