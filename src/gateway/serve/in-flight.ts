import { WireError } from '../../wires/core/error.ts';

/** An unfinished request: its body is being received, its answer is being sent, or its hold is not settled. */
interface UnfinishedRequest {
  readonly finished: Promise<unknown>;
  readonly stop: () => void;
}

/** The requests that a gateway finishes before it stops. */
export class InFlight {
  readonly #unfinished = new Set<UnfinishedRequest>();
  #isDraining = false;
  #isStopping = false;

  /** Whether the gateway waits for its last requests to finish. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Whether new requests are refused. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  get count(): number {
    return this.#unfinished.size;
  }

  /** @param stop aborts the request */
  add(finished: Promise<unknown>, stop: () => void): void {
    const request = { finished, stop };
    this.#unfinished.add(request);
    const remove = () => this.#unfinished.delete(request);
    void finished.then(remove, remove);
    if (this.#isStopping) stop();
  }

  /** Gives unfinished requests `graceMs` to finish, then aborts them. Resolves when all are settled. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    const timer = setTimeout(() => {
      this.#isStopping = true;
      for (const { stop } of this.#unfinished) stop();
    }, graceMs);
    while (this.#unfinished.size > 0)
      await Promise.allSettled([...this.#unfinished].map(({ finished }) => finished));
    clearTimeout(timer);
    // Without an `await` since the last check: a request that began in between would find the ledger closed.
    this.#isStopping = true;
  }
}

export const stoppingError = (): WireError =>
  new WireError(503, 'server_error', 'The gateway is stopping; retry in a moment.', {
    code: 'gateway_stopping',
    headers: { 'retry-after': '1' },
  });
