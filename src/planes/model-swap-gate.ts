import { raceAbort } from '../util/race-abort.ts';
import { HttpError } from '../http/error.ts';

/** Limit of requests that wait for another model. */
const maxWaiting = 256;
/** A drain no longer waits for stalled readers once the engine has been idle for this long. */
const idleTimeoutMs = 5000;

/** Lifetime of a model lease. */
export interface Lease {
  /** Aborted when the client disconnects or the host stops. */
  readonly signal: AbortSignal;
  /** Resolves when the response was sent or the client stopped reading; releases the lease. */
  readonly finished: Promise<void>;
}

/** The slot of the resident model. `Model` is the type that leases return. */
interface ModelSlot<Model> {
  /** The resident model and its location; undefined where there is none. */
  readonly current: () => { readonly location: string; readonly model: Model } | undefined;
  /** Loads another model. Afterwards `current` returns the resident model, also after a failure. */
  readonly swap: (location: string) => Promise<void>;
  /** Whether the resident model has no work. */
  readonly isIdle: () => boolean;
  /** Returns the error for a request when no model is resident. */
  readonly absenceError: () => unknown;
}

interface QueuedRequest<Model> {
  /** Location of the requested model; undefined: any model. */
  readonly location: string | undefined;
  readonly lease: Lease;
  readonly grant: (model: Model) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Grants requests access to the one resident model and swaps the model when it is unused. Requests are served in order
 * of arrival: a request for another model waits until all earlier requests are done, and later requests wait behind it.
 * When a model is loaded, all requests that wait for it at that time are admitted, so mixed requests cause as few swaps
 * as fairness allows.
 */
export class ModelSwapGate<Model> {
  readonly #slot: ModelSlot<Model>;
  #leaseCount = 0;
  #pinCount = 0;
  #queue: QueuedRequest<Model>[] = [];
  #isSwapping = false;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(slot: ModelSlot<Model>) {
    this.#slot = slot;
  }

  /** Resolves with the model when it is this request's turn. */
  async acquire(location: string | undefined, lease: Lease): Promise<Model> {
    lease.signal.throwIfAborted();
    const current = this.#queue.length === 0 && !this.#isSwapping ? this.#slot.current() : undefined;
    if (current && (location === undefined || location === current.location)) {
      this.#countLease(lease);
      return current.model;
    }
    if (this.#queue.length >= maxWaiting) {
      const message = `${maxWaiting} requests wait for another model to be loaded; try again later.`;
      throw new HttpError(429, 'queue_full', message, { headers: { 'retry-after': '1' } });
    }
    const { promise, resolve, reject } = Promise.withResolvers<Model>();
    const request: QueuedRequest<Model> = { location, lease, grant: resolve, reject: reject };
    this.#queue.push(request);
    this.#admitNext();
    try {
      return await raceAbort(promise, lease.signal);
    } finally {
      if (this.#queue.includes(request)) {
        this.#queue = this.#queue.filter((other) => other !== request);
        this.#admitNext();
      }
    }
  }

  /** Pins the model for an admitted request whose work `isIdle` does not cover. */
  pin({ finished }: Lease): void {
    this.#pinCount += 1;
    void finished.finally(() => {
      this.#pinCount -= 1;
      this.#admitNext();
    });
  }

  #countLease({ finished }: Lease): void {
    this.#leaseCount += 1;
    void finished.finally(() => {
      this.#leaseCount -= 1;
      this.#admitNext();
    });
  }

  #admit(request: QueuedRequest<Model>, model: Model): void {
    this.#queue = this.#queue.filter((other) => other !== request);
    this.#countLease(request.lease);
    request.grant(model);
  }

  #admitNext(): void {
    for (;;) {
      const [first] = this.#queue;
      if (!first || this.#isSwapping) return this.#stopIdleTimer();
      const current = this.#slot.current();
      if (current && (first.location === undefined || first.location === current.location)) {
        this.#admit(first, current.model);
      } else if (first.location === undefined) {
        this.#queue.shift();
        first.reject(this.#slot.absenceError());
      } else if (this.#leaseCount + this.#pinCount > 0) {
        return this.#startIdleTimer();
      } else {
        this.#stopIdleTimer();
        void this.#swap(first.location);
        return;
      }
    }
  }

  async #swap(location: string): Promise<void> {
    this.#isSwapping = true;
    let failure: { readonly error: unknown } | undefined;
    try {
      await this.#slot.swap(location);
    } catch (error) {
      failure = { error };
    }
    this.#isSwapping = false;
    const matching = this.#queue.filter(({ location: wanted }) => wanted === location);
    const current = this.#slot.current();
    for (const request of matching) {
      if (current?.location === location) this.#admit(request, current.model);
      else {
        this.#queue = this.#queue.filter((other) => other !== request);
        request.reject(failure?.error ?? this.#slot.absenceError());
      }
    }
    this.#admitNext();
  }

  /** A client that neither reads nor disconnects must not block a swap forever. */
  #startIdleTimer(): void {
    if (this.#idleTimer) return;
    let idleSince: number | undefined;
    this.#idleTimer = setInterval(() => {
      if (this.#pinCount > 0 || !this.#slot.isIdle()) idleSince = undefined;
      else idleSince ??= performance.now();
      if (idleSince === undefined || performance.now() - idleSince < idleTimeoutMs) return;
      const [first] = this.#queue;
      this.#stopIdleTimer();
      if (first?.location !== undefined && !this.#isSwapping) void this.#swap(first.location);
    }, idleTimeoutMs / 10);
    this.#idleTimer.unref();
  }

  #stopIdleTimer(): void {
    clearInterval(this.#idleTimer);
    this.#idleTimer = undefined;
  }
}
