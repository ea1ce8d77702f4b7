/** Tokens by which two clients' service may differ before one's running sequence makes room for the other's. */
export const sliceTokens = 256;
/** Clients without requests whose service is remembered. */
const maxIdleClients = 1024;

interface Share {
  /** Tokens computed for the client, divided by its weight, on a scale that all clients share. */
  service: number;
  /** It had no requests when its last one arrived, and none was admitted since. */
  isNew: boolean;
}

/**
 * Counts what each client got: prompt tokens that were computed and tokens that were generated, which cost about the
 * same time in a full step; cached prompt tokens are free. A client that comes back starts at the smallest count of the
 * clients with requests, so it can neither save up service nor be owed any.
 */
export class ClientShares {
  readonly #shares = new Map<string, Share>();
  readonly #weights: ReadonlyMap<string, number>;

  /** @param weights share of a client relative to the others; the default is 1 */
  constructor(weights: ReadonlyMap<string, number> = new Map()) {
    this.#weights = weights;
  }

  weightOf(client: string): number {
    return this.#weights.get(client) ?? 1;
  }

  serviceOf(client: string): number {
    return this.#shares.get(client)?.service ?? 0;
  }

  charge(client: string, tokens: number): void {
    const share = this.#shares.get(client);
    if (share) share.service += tokens / this.weightOf(client);
  }

  /** A request of a client arrived that had none. @param active the clients that have requests */
  activate(client: string, active: ReadonlySet<string>): void {
    if (active.size === 0) this.#shares.clear();
    const least = Math.min(...Array.from(active, (other) => this.serviceOf(other)));
    if (this.#shares.size > active.size + maxIdleClients) this.#forgetIdle(active);
    const service = Math.max(this.serviceOf(client), Number.isFinite(least) ? least : 0);
    this.#shares.set(client, { service, isNew: true });
  }

  /** A request of the client was admitted. */
  admit(client: string): void {
    const share = this.#shares.get(client);
    if (share) share.isNew = false;
  }

  /**
   * Whether a client without a running sequence is so far behind another that one of the other's makes room for it: by
   * a slice, or at all when it has just come.
   */
  isBehind(client: string, other: string): boolean {
    const slice = this.#shares.get(client)?.isNew ? 0 : sliceTokens;
    return this.serviceOf(other) - this.serviceOf(client) >= slice;
  }

  #forgetIdle(active: ReadonlySet<string>): void {
    for (const client of this.#shares.keys()) if (!active.has(client)) this.#shares.delete(client);
  }
}
