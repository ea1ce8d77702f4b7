/** What time it is, and how long something takes: the wall clock may jump, the other one never does. */
export interface Clock {
  readonly now: () => Date;
  /** Milliseconds since some beginning. */
  readonly monotonic: () => number;
}

export const systemClock: Clock = { now: () => new Date(), monotonic: () => performance.now() };
