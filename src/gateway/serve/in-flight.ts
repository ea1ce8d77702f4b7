import { WireError } from '../../wires/core/error.ts';

/** An unfinished request: its body is being received, its answer is being sent, or its hold is not settled. */
interface Open {
  readonly over: Promise<unknown>;
  readonly stop: () => void;
}

/** The requests that a gateway finishes before it stops. */
export class InFlight {
  readonly #open = new Set<Open>();
  #stopping = false;

  /** Whether new requests are refused. */
  get stopping(): boolean {
    return this.#stopping;
  }

  /** @param stop aborts the request */
  add(over: Promise<unknown>, stop: () => void): void {
    const one = { over, stop };
    this.#open.add(one);
    const ended = () => this.#open.delete(one);
    void over.then(ended, ended);
    if (this.#stopping) stop();
  }

  /** Gives unfinished requests `graceMs` to finish, then aborts them. Resolves when all are settled. */
  async drain(graceMs: number): Promise<void> {
    const timer = setTimeout(() => {
      this.#stopping = true;
      for (const { stop } of this.#open) stop();
    }, graceMs);
    while (this.#open.size > 0) await Promise.allSettled([...this.#open].map(({ over }) => over));
    clearTimeout(timer);
    // Without an `await` since the last check: a request that began in between would find the ledger closed.
    this.#stopping = true;
  }
}

export const stopping = (): WireError =>
  new WireError(503, 'server_error', 'The gateway is stopping; retry in a moment.', {
    code: 'gateway_stopping',
    headers: { 'retry-after': '1' },
  });
