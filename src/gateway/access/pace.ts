/**
 * A token bucket of requests that holds one minute's worth and refills evenly. Its state is one integer, the time at which
 * it is full again, in microseconds (generic cell rate algorithm).
 */
export interface Pace {
  /** Time to refill one request, in microseconds. */
  readonly interval: number;
  /** Time to refill the whole bucket, in microseconds. */
  readonly depth: number;
}

export function paceOf(requestsPerMinute: number): Pace {
  const interval = Math.ceil(60e6 / requestsPerMinute);
  return { interval, depth: interval * requestsPerMinute };
}

/**
 * Clock tolerance in microseconds: a bucket whose full time is later than possible by more than this was written by a wrong
 * clock and is reset.
 */
const forgiven = 60e6;

/**
 * Takes one request from the bucket.
 * @param fullAt when the bucket is full again; a past time means that it is full
 * @returns the new time at which it is full, or undefined when it is empty
 */
export function draw({ interval, depth }: Pace, fullAt: number, now: number): number | undefined {
  const after = (fullAt > now + depth + forgiven ? now : Math.max(fullAt, now)) + interval;
  return after - now <= depth ? after : undefined;
}

/** Whether `takeRequest` would return undefined. */
export const isEmpty = (pace: Pace, fullAt: number, now: number): boolean =>
  draw(pace, fullAt, now) === undefined;
