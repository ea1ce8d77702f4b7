import { unlessAborted } from '../util/abort.ts';
import { HttpError } from '../http/error.ts';

/** Requests that may wait for another model to be loaded. */
const mostWaiting = 256;
/** A drain goes on without readers that have stopped reading once the engine has had nothing to do for so long. */
const idleMs = 5000;

/** The end of a request, as far as it matters who is served. */
export interface Visit {
  /** Ends with the client or the host. */
  readonly signal: AbortSignal;
  /** The answer is out, or nobody reads it any more. */
  readonly over: Promise<void>;
}

/** What the turnstile stands before. `Model` is what a visitor gets. */
interface Hall<Model> {
  /** The model that is there, with what it is known by; undefined where there is none. */
  readonly current: () => { readonly location: string; readonly model: Model } | undefined;
  /** Puts another model there; what is there afterwards `current` tells, also where it fails. */
  readonly change: (location: string) => Promise<void>;
  /** Whether the model that is there has nothing to do. */
  readonly idle: () => boolean;
  /** What a visitor is told who finds no model. */
  readonly empty: () => unknown;
}

interface Waiting<Model> {
  /** The model that it wants; undefined: any. */
  readonly wanted: string | undefined;
  readonly visit: Visit;
  readonly admit: (model: Model) => void;
  readonly refuse: (error: unknown) => void;
}

/**
 * Lets requests to the one resident model, and changes it when nobody uses it any more. First come, first served: who
 * wants another model waits until all before it are done, and who comes later waits behind it. When a model comes, all
 * who wait for it then are let in, so that mixed requests change it as seldom as fairness allows.
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

  /** The model, once it is this request's turn. */
  async enter(wanted: string | undefined, visit: Visit): Promise<Model> {
    visit.signal.throwIfAborted();
    const now = this.#waiting.length === 0 && !this.#changing ? this.#hall.current() : undefined;
    if (now && (wanted === undefined || wanted === now.location)) {
      this.#count(visit);
      return now.model;
    }
    if (this.#waiting.length >= mostWaiting) {
      const message = `${mostWaiting} requests wait for another model to be loaded; come back later.`;
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

  /** Counts a request that is inside already, and does more there than `idle` can tell. */
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

  /** Who reads no more and does not go away either must not hold up the others for ever. */
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
