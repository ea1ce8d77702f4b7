import { WireError } from '../../wires/core/error.ts';

export type Refused = 'concurrency' | 'rate';

/** What a key may do at once and in a minute. */
export interface KeyLimits {
  readonly concurrency: number;
  readonly requestsPerMinute: number;
}

/** Nothing tells how much is left, by decision: only that a second later is soon enough to try. */
export function limitReached(refused: Refused, { concurrency, requestsPerMinute }: KeyLimits): WireError {
  const message =
    refused === 'concurrency'
      ? `This key has ${concurrency} requests under way, as many as it may have at once: wait for one of them to end.`
      : `This key has sent ${requestsPerMinute} requests in a minute, as many as it may: send them more slowly.`;
  return new WireError(429, 'rate_limit_error', message, {
    code: 'rate_limit_exceeded',
    headers: { 'retry-after': '1' },
  });
}

/** A place that is given back once, however often it is asked. */
export function placeOf(giveBack: () => void): { readonly leave: () => void } {
  let taken = true;
  return {
    leave() {
      if (taken) giveBack();
      taken = false;
    },
  };
}
