import { WireError } from '../../wires/core/error.ts';

/** A request that is not over yet: it is coming in, its answer is on the way, or its money is not settled. */
interface Open {
  readonly over: Promise<unknown>;
  readonly stop: () => void;
}

/** What a gateway has to finish before it ends. */
export class InFlight {
  readonly #open = new Set<Open>();
  #stopping = false;

  /** Whether nothing may begin any more. */
  get stopping(): boolean {
    return this.#stopping;
  }

  /** @param stop ends it */
  add(over: Promise<unknown>, stop: () => void): void {
    const one = { over, stop };
    this.#open.add(one);
    const ended = () => this.#open.delete(one);
    void over.then(ended, ended);
    if (this.#stopping) stop();
  }

  /** Lets what is open finish for `graceMs`, then ends it; resolves when all of it is settled. */
  async drain(graceMs: number): Promise<void> {
    const timer = setTimeout(() => {
      this.#stopping = true;
      for (const { stop } of this.#open) stop();
    }, graceMs);
    while (this.#open.size > 0) await Promise.allSettled([...this.#open].map(({ over }) => over));
    clearTimeout(timer);
    // In the same breath as the last look: what came now would find its ledger closed in the middle.
    this.#stopping = true;
  }
}

export const stopping = (): WireError =>
  new WireError(503, 'server_error', 'The gateway is stopping; ask again.', {
    code: 'gateway_stopping',
    headers: { 'retry-after': '1' },
  });
