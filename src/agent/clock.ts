/** Source of time. The wall clock may jump; the monotonic clock never does. */
export interface Clock {
  readonly now: () => Date;
  /** Milliseconds since an arbitrary origin. */
  readonly monotonic: () => number;
}

export const systemClock: Clock = { now: () => new Date(), monotonic: () => performance.now() };
