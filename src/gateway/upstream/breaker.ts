export interface BreakerOptions {
  /** In a row. */
  readonly failures: number;
  readonly openMs: number;
  /** In ms, monotonic. */
  readonly now: () => number;
}

/** Leave to ask a provider, and how it went; one of the three, once. */
export interface BreakerTicket {
  succeeded(): void;
  failed(): void;
  /** It says nothing of the provider's health. */
  dropped(): void;
}

/**
 * Stands between us and one provider. Failures in a row open it: nobody asks for a while. Then one request goes through
 * to see, and closes it or opens it again.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  #state: { phase: 'closed' } | { phase: 'open'; until: number } | { phase: 'trying' } = { phase: 'closed' };

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#state.phase !== 'closed';
  }

  /** Leave, or for how long there is none, in ms. */
  enter(): BreakerTicket | { readonly restMs: number } {
    const { now, openMs } = this.#options;
    if (this.#state.phase === 'closed') return this.#usual();
    if (this.#state.phase === 'trying') return { restMs: openMs };
    const restMs = this.#state.until - now();
    return restMs > 0 ? { restMs } : this.#trial();
  }

  #usual(): BreakerTicket {
    // What began before the breaker opened tells nothing new.
    const ifClosed = (change: () => void) => () => {
      if (this.#state.phase === 'closed') change();
    };
    return {
      succeeded: ifClosed(() => {
        this.#failures = 0;
      }),
      failed: ifClosed(() => {
        this.#failures += 1;
        if (this.#failures >= this.#options.failures) this.#open();
      }),
      dropped: () => undefined,
    };
  }

  #trial(): BreakerTicket {
    const now = this.#options.now();
    this.#state = { phase: 'trying' };
    return {
      succeeded: () => {
        this.#failures = 0;
        this.#state = { phase: 'closed' };
      },
      failed: () => this.#open(),
      // The next one tries.
      dropped: () => {
        this.#state = { phase: 'open', until: now };
      },
    };
  }

  #open(): void {
    this.#state = { phase: 'open', until: this.#options.now() + this.#options.openMs };
  }
}
