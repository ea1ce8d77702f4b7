/** Token bucket per write token: burst size and refill rate. */
const burstSize = 100;
const refillPerSecond = 50;
const maxTokens = 1000;

/** Rate limiter of write tokens. */
export class TokenRateLimiter {
  /** Time at which the bucket of a token is full again, in ms of the monotonic clock. */
  readonly #fullAt = new Map<string, number>();

  /** Counts a request. @returns false if the limit is reached */
  tryAcquire(token: string, now = performance.now()): boolean {
    const fullAt = Math.max(this.#fullAt.get(token) ?? 0, now) + 1000 / refillPerSecond;
    if (fullAt - now > (burstSize / refillPerSecond) * 1000) return false;
    // Reinsertion keeps the map in order of last use.
    this.#fullAt.delete(token);
    this.#fullAt.set(token, fullAt);
    if (this.#fullAt.size > maxTokens)
      for (const oldest of this.#fullAt.keys()) {
        this.#fullAt.delete(oldest);
        break;
      }
    return true;
  }
}
