import { WireError } from '../../wires/core/error.ts';

/** An unfinished part of a request: its body is being received, its answer is being sent, or its hold is not settled. */
interface UnfinishedPart {
  readonly finished: Promise<unknown>;
  readonly stop: () => void;
  readonly request: object;
}

/** The requests that a gateway finishes before it stops. */
export class InFlight {
  readonly #unfinished = new Set<UnfinishedPart>();
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

  /** Number of requests with unfinished parts. */
  get count(): number {
    return new Set([...this.#unfinished].map(({ request }) => request)).size;
  }

  /**
   * Adds a part of a request.
   * @param stop aborts it
   * @param request the same object for all parts of a request
   */
  add(finished: Promise<unknown>, stop: () => void, request: object = {}): void {
    const part = { finished, stop, request };
    this.#unfinished.add(part);
    const remove = () => this.#unfinished.delete(part);
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
