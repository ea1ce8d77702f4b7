import { unlessAborted } from '../util/abort.ts';
import { HttpError } from '../http/error.ts';

/** Limit of requests that wait for another model. */
const mostWaiting = 256;
/** A drain no longer waits for stalled readers once the engine has been idle for this long. */
const idleMs = 5000;

/** Lifetime of a model lease. */
export interface Visit {
  /** Aborted when the client disconnects or the host stops. */
  readonly signal: AbortSignal;
  /** Resolves when the response was sent or the client stopped reading; releases the lease. */
  readonly over: Promise<void>;
}

/** The slot of the resident model. `Model` is the type that leases return. */
interface Hall<Model> {
  /** The resident model and its location; undefined where there is none. */
  readonly current: () => { readonly location: string; readonly model: Model } | undefined;
  /** Loads another model. Afterwards `current` returns the resident model, also after a failure. */
  readonly change: (location: string) => Promise<void>;
  /** Whether the resident model has no work. */
  readonly idle: () => boolean;
  /** Returns the error for a request when no model is resident. */
  readonly empty: () => unknown;
}

interface Waiting<Model> {
  /** Location of the requested model; undefined: any model. */
  readonly wanted: string | undefined;
  readonly visit: Visit;
  readonly admit: (model: Model) => void;
  readonly refuse: (error: unknown) => void;
}

/**
 * Grants requests access to the one resident model and swaps the model when it is unused. Requests are served in order
 * of arrival: a request for another model waits until all earlier requests are done, and later requests wait behind it.
 * When a model is loaded, all requests that wait for it at that time are admitted, so mixed requests cause as few swaps
 * as fairness allows.
 */
export class Turnstile<Model> {
  readonly #hall: Hall<Model>;
  #inside = 0;
  #held = 0;
  #waiting: Waiting<Model>[] = [];
  #changing = false;
  #watch: NodeJS.Timeout | undefined;

  constructor(hall: Hall<Model>) {
    this.#hall = hall;
  }

  /** Resolves with the model when it is this request's turn. */
  async enter(wanted: string | undefined, visit: Visit): Promise<Model> {
    visit.signal.throwIfAborted();
    const now = this.#waiting.length === 0 && !this.#changing ? this.#hall.current() : undefined;
    if (now && (wanted === undefined || wanted === now.location)) {
      this.#count(visit);
      return now.model;
    }
    if (this.#waiting.length >= mostWaiting) {
      const message = `${mostWaiting} requests wait for another model to be loaded; try again later.`;
      throw new HttpError(429, 'queue_full', message, { headers: { 'retry-after': '1' } });
    }
    const { promise, resolve, reject } = Promise.withResolvers<Model>();
    const one: Waiting<Model> = { wanted, visit, admit: resolve, refuse: reject };
    this.#waiting.push(one);
    this.#advance();
    try {
      return await unlessAborted(promise, visit.signal);
    } finally {
      if (this.#waiting.includes(one)) {
        this.#waiting = this.#waiting.filter((other) => other !== one);
        this.#advance();
      }
    }
  }

  /** Pins the model for an admitted request whose work `isIdle` does not cover. */
  hold({ over }: Visit): void {
    this.#held += 1;
    void over.finally(() => {
      this.#held -= 1;
      this.#advance();
    });
  }

  #count({ over }: Visit): void {
    this.#inside += 1;
    void over.finally(() => {
      this.#inside -= 1;
      this.#advance();
    });
  }

  #admit(one: Waiting<Model>, model: Model): void {
    this.#waiting = this.#waiting.filter((other) => other !== one);
    this.#count(one.visit);
    one.admit(model);
  }

  #advance(): void {
    for (;;) {
      const [first] = this.#waiting;
      if (!first || this.#changing) return this.#rest();
      const now = this.#hall.current();
      if (now && (first.wanted === undefined || first.wanted === now.location)) {
        this.#admit(first, now.model);
      } else if (first.wanted === undefined) {
        this.#waiting.shift();
        first.refuse(this.#hall.empty());
      } else if (this.#inside + this.#held > 0) {
        return this.#watchReaders();
      } else {
        this.#rest();
        void this.#change(first.wanted);
        return;
      }
    }
  }

  async #change(location: string): Promise<void> {
    this.#changing = true;
    let failure: { readonly error: unknown } | undefined;
    try {
      await this.#hall.change(location);
    } catch (error) {
      failure = { error };
    }
    this.#changing = false;
    const wanting = this.#waiting.filter(({ wanted }) => wanted === location);
    const now = this.#hall.current();
    for (const one of wanting) {
      if (now?.location === location) this.#admit(one, now.model);
      else {
        this.#waiting = this.#waiting.filter((other) => other !== one);
        one.refuse(failure?.error ?? this.#hall.empty());
      }
    }
    this.#advance();
  }

  /** A client that neither reads nor disconnects must not block a swap forever. */
  #watchReaders(): void {
    if (this.#watch) return;
    let idleSince: number | undefined;
    this.#watch = setInterval(() => {
      if (this.#held > 0 || !this.#hall.idle()) idleSince = undefined;
      else idleSince ??= performance.now();
      if (idleSince === undefined || performance.now() - idleSince < idleMs) return;
      const [first] = this.#waiting;
      this.#rest();
      if (first?.wanted !== undefined && !this.#changing) void this.#change(first.wanted);
    }, idleMs / 10);
    this.#watch.unref();
  }

  #rest(): void {
    clearInterval(this.#watch);
    this.#watch = undefined;
  }
}
