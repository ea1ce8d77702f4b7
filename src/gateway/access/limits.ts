import { WireError } from '../../wires/core/error.ts';

export type LimitKind = 'concurrency' | 'rate';

/** Limits of one key. */
export interface KeyLimits {
  readonly concurrency: number;
  readonly requestsPerMinute: number;
}

/** The 429 of a limit. By design it does not report the remaining quota, only `Retry-After: 1`. */
export function limitError(limit: LimitKind, { concurrency, requestsPerMinute }: KeyLimits): WireError {
  const message =
    limit === 'concurrency'
      ? `This key has ${concurrency} ${concurrency === 1 ? 'request' : 'requests'} running, which is its limit: wait for one of them to end.`
      : `This key has sent ${requestsPerMinute} requests in a minute, which is its limit: send them more slowly.`;
  return new WireError(429, 'rate_limit_error', message, {
    code: 'rate_limit_exceeded',
    headers: { 'retry-after': '1' },
  });
}

/** A permit; leaving it more than once has no effect. */
export function createPermit(onRelease: () => void): { readonly release: () => void } {
  let isHeld = true;
  return {
    release() {
      if (isHeld) onRelease();
      isHeld = false;
    },
  };
}
