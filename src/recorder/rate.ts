/** Requests of one token: as many in a row, and as many a second. */
const depth = 100;
const perSecond = 50;
const mostTokens = 1000;

/** How often each write token may be used. */
export class TokenRate {
  /** When its bucket is full again, in ms of the monotonic clock. */
  readonly #fullAt = new Map<string, number>();

  /** Takes one; false where none is left. */
  draw(token: string, now = performance.now()): boolean {
    const fullAt = Math.max(this.#fullAt.get(token) ?? 0, now) + 1000 / perSecond;
    if (fullAt - now > (depth / perSecond) * 1000) return false;
    // Those used last are last.
    this.#fullAt.delete(token);
    this.#fullAt.set(token, fullAt);
    if (this.#fullAt.size > mostTokens)
      for (const oldest of this.#fullAt.keys()) {
        this.#fullAt.delete(oldest);
        break;
      }
    return true;
  }
}
