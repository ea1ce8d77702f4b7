/**
 * A token bucket of requests that holds one minute's worth and refills evenly. Its state is one integer, the time at which
 * it is full again, in microseconds (generic cell rate algorithm).
 */
export interface RequestRate {
  /** Time to refill one request, in microseconds. */
  readonly intervalMicros: number;
  /** Time to refill the whole bucket, in microseconds. */
  readonly depthMicros: number;
}

export function requestRateOf(requestsPerMinute: number): RequestRate {
  const intervalMicros = Math.ceil(60e6 / requestsPerMinute);
  return { intervalMicros, depthMicros: intervalMicros * requestsPerMinute };
}

/**
 * Clock tolerance in microseconds: a bucket whose full time is later than possible by more than this was written by a wrong
 * clock and is reset.
 */
const clockToleranceMicros = 60e6;

/**
 * Takes one request from the bucket.
 * @param fullAt when the bucket is full again; a past time means that it is full
 * @returns the new time at which it is full, or undefined when it is empty
 */
export function takeRequest(
  { intervalMicros, depthMicros }: RequestRate,
  fullAt: number,
  now: number,
): number | undefined {
  const fullAtAfter =
    (fullAt > now + depthMicros + clockToleranceMicros ? now : Math.max(fullAt, now)) + intervalMicros;
  return fullAtAfter - now <= depthMicros ? fullAtAfter : undefined;
}

/** Time in microseconds until an empty bucket has room for a request. */
export const requestWait = (
  { intervalMicros, depthMicros }: RequestRate,
  fullAt: number,
  now: number,
): number => Math.max(0, fullAt + intervalMicros - depthMicros - now);

/** Whether `takeRequest` would return undefined. */
export const isEmpty = (rate: RequestRate, fullAt: number, now: number): boolean =>
  takeRequest(rate, fullAt, now) === undefined;
