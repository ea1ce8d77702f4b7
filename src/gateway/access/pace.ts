/**
 * So many requests a minute as a bucket that holds a minute's worth and fills up evenly. All that is kept of a bucket is when
 * it will be full again, in whole microseconds: one number, exact, whatever the order in which requests come.
 */
export interface Pace {
  /** That one request takes to come back. */
  readonly interval: number;
  /** That the whole bucket takes. */
  readonly depth: number;
}

export function paceOf(requestsPerMinute: number): Pace {
  const interval = Math.ceil(60e6 / requestsPerMinute);
  return { interval, depth: interval * requestsPerMinute };
}

/** A bucket that says it is full later than an empty one can be, by that much, was written by a clock that was wrong. */
const forgiven = 60e6;

/**
 * Takes one request out.
 * @param fullAt when the bucket is full again; in the past: it is full
 * @returns when it is full again after that, or undefined where it is empty
 */
export function draw({ interval, depth }: Pace, fullAt: number, now: number): number | undefined {
  const after = (fullAt > now + depth + forgiven ? now : Math.max(fullAt, now)) + interval;
  return after - now <= depth ? after : undefined;
}

/** Whether `draw` says undefined. */
export const isEmpty = (pace: Pace, fullAt: number, now: number): boolean =>
  draw(pace, fullAt, now) === undefined;
