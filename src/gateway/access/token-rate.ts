/**
 * A bucket of tokens that holds one minute's worth and refills evenly. Like that of requests, its state is the time at which it
 * is full again, in microseconds. A request is admitted while the bucket is not empty, and takes its estimated tokens; what it
 * uses beyond them is taken when it ends. The bucket can therefore owe tokens, and refuses requests until it has refilled.
 */
const minuteMicros = 60e6;

/** The most that a bucket owes, as the time to refill it: one huge answer does not stop a key for hours. */
const maxDebtMicros = 600e6;

/** Clock tolerance: a bucket that owes more than possible by this was written by a wrong clock and is reset. */
const clockToleranceMicros = 60e6;

/** The time at which the bucket is full, without what a wrong clock wrote. */
const fullTime = (fullAt: number, now: number): number =>
  fullAt > now + minuteMicros + maxDebtMicros + clockToleranceMicros ? now : Math.max(fullAt, now);

/** Whether a request is refused. @param fullAt when the bucket is full again; a past time means that it is full */
export const isSpent = (fullAt: number, now: number): boolean => fullTime(fullAt, now) - now >= minuteMicros;

/** Time in microseconds until a spent bucket has a token. */
export const tokenWait = (fullAt: number, now: number): number => Math.max(0, fullAt - now - minuteMicros);

/** Takes tokens, or gives them back if their number is negative. @returns the new time at which the bucket is full */
export function takeTokens(tokensPerMinute: number, fullAt: number, now: number, tokens: number): number {
  const micros = Math.round((tokens * minuteMicros) / tokensPerMinute);
  return Math.max(0, Math.min(fullTime(fullAt, now) + micros, now + minuteMicros + maxDebtMicros));
}
