import { WireError } from '../../wires/core/error.ts';
import type { KeyRow } from '../ledger/types.ts';

export type LimitKind = 'concurrency' | 'rate' | 'tokens';

/** Limits of one key. */
export interface KeyLimits {
  readonly concurrency: number;
  readonly requestsPerMinute: number;
  /** Input and output together; undefined: no limit. */
  readonly tokensPerMinute?: number | undefined;
}

/** The limits of a key: its own, and those of the configuration where it has none. */
export const limitsOf = (key: KeyRow, defaults: KeyLimits): KeyLimits => ({
  concurrency: key.concurrency ?? defaults.concurrency,
  requestsPerMinute: key.requestsPerMinute ?? defaults.requestsPerMinute,
  tokensPerMinute: key.tokensPerMinute ?? defaults.tokensPerMinute,
});

/** Whether two states of a key have the same limits. */
export const hasSameLimits = (one: KeyRow, other: KeyRow): boolean =>
  one.concurrency === other.concurrency &&
  one.requestsPerMinute === other.requestsPerMinute &&
  one.tokensPerMinute === other.tokensPerMinute;

/**
 * The 429 of a limit. By design it does not report the remaining quota, and `Retry-After` is always 1; `retry-after-ms`, which
 * clients of OpenAI and Anthropic prefer, is the time until a request fits.
 * @param waitMicros until then, in microseconds; undefined: a running request has to end
 */
export function limitError(
  limit: LimitKind,
  { concurrency, requestsPerMinute, tokensPerMinute }: KeyLimits,
  waitMicros?: number,
): WireError {
  const messages = {
    concurrency: `This key has ${concurrency} ${concurrency === 1 ? 'request' : 'requests'} running, which is its limit: wait for one of them to end.`,
    rate: `This key has sent ${requestsPerMinute} requests in a minute, which is its limit: send them more slowly.`,
    tokens: `This key has used ${tokensPerMinute} tokens in a minute, which is its limit: send requests more slowly, or shorter ones.`,
  };
  return new WireError(429, 'rate_limit_error', messages[limit], {
    code: 'rate_limit_exceeded',
    headers: {
      'retry-after': '1',
      ...(waitMicros === undefined
        ? {}
        : { 'retry-after-ms': String(Math.max(1, Math.ceil(waitMicros / 1000))) }),
    },
  });
}

/** The permit of a running request. */
export interface Permit {
  /** Frees the request's place. Leaving it more than once has no effect. */
  readonly release: () => void;
  /** Replaces the estimate of the request's tokens by their number. A second call has no effect. */
  readonly countTokens: (tokens: number) => void;
}

export function createPermit(onRelease: () => void, onTokens: (tokens: number) => void): Permit {
  let isHeld = true;
  let isCounted = false;
  return {
    release() {
      if (isHeld) onRelease();
      isHeld = false;
    },
    countTokens(tokens) {
      if (!isCounted) onTokens(tokens);
      isCounted = true;
    },
  };
}
