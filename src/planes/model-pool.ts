import { raceAbort } from '../util/race-abort.ts';
import { HttpError } from '../http/error.ts';

/** Limit of requests that wait for the same model to be loaded. */
const maxWaiting = 256;
/** A model that must leave no longer waits for stalled readers once its engine has been idle for this long. */
const idleTimeoutMs = 5000;

/** Lifetime of a model lease. */
export interface Lease {
  /** Aborted when the client disconnects or the host stops. */
  readonly signal: AbortSignal;
  /** Resolves when the response was sent or the client stopped reading; releases the lease. */
  readonly finished: Promise<void>;
}

/** How many models may be loaded at the same time. */
export interface PoolPlaces {
  /** Models that requests may load and replace, the main one included. At least 1. */
  readonly count: number;
  /** Whether another model may replace the main one. Otherwise it stays, and `count` is at least 2. */
  readonly canReplaceMain: boolean;
}

/**
 * `main`: the model of requests that name none, and of the lab. `fixed`: loaded beside it at start, never closed for
 * another one, and not counted. `further`: loaded when a request named it.
 */
type Role = 'main' | 'fixed' | 'further';

/** How a model is to be loaded. */
export interface LoadParams {
  readonly isMain: boolean;
  /** Fail rather than shrink the default context, because closing other models could make room. */
  readonly keepsContext: boolean;
  /** Places that have no model yet, this one included. */
  readonly openPlaces: number;
}

/** What the pool needs to know about models. `Model` is the type that leases return. */
interface PoolPort<Model> {
  readonly load: (location: string, params: LoadParams) => Promise<Model>;
  readonly close: (model: Model) => Promise<void>;
  /** Device memory of a loaded model. */
  readonly memoryBytes: (model: Model) => number;
  /** Whether the model has no work. */
  readonly isIdle: (model: Model) => boolean;
  /** Device memory that a failed load lacked; undefined where it failed for another reason. */
  readonly missingBytes: (error: unknown) => number | undefined;
  /** The error for requests whose model could not be loaded. */
  readonly toLoadError: (location: string, error: unknown) => unknown;
  /** @param failures why the last main model and the one before it could not be loaded */
  readonly absenceError: (failures: readonly unknown[]) => unknown;
}

interface LoadedEntry<Model> {
  readonly location: string;
  readonly model: Model;
  readonly role: Role;
  leaseCount: number;
  pinCount: number;
  /** Time of the last use, in uses of all models. */
  lastUsed: number;
  /** Closed as soon as it is unused, unless another request comes first. */
  isExpiring: boolean;
}

interface QueuedRequest<Model> {
  /** Location of the requested model; undefined: the main model. */
  readonly location: string | undefined;
  readonly lease: Lease;
  readonly grant: (model: Model) => void;
  readonly reject: (error: unknown) => void;
}

/** A model that is being loaded, or that waits for room. */
interface Newcomer {
  readonly location: string;
  /** Undefined until there is a place for it. */
  role: 'main' | 'further' | undefined;
  /** A load lacked memory that other models have. */
  needsMemory: boolean;
  /** Closing other models would not make room for its whole default context. */
  mayShrink: boolean;
}

/**
 * Grants requests access to loaded models, and loads the models that they name. When no place or not enough memory is
 * left, the least recently used model without requests is closed. Where all have requests, the least recently used one
 * must leave: its later requests wait behind the newcomer, so neither can starve the other. Requests for the other
 * models are admitted at once. Models are loaded and closed one at a time, in order of arrival; when a model is loaded,
 * all requests that wait for it are admitted, so mixed requests cause as few loads as fairness allows.
 */
export class ModelPool<Model> {
  readonly #port: PoolPort<Model>;
  readonly #places: PoolPlaces;
  #entries: LoadedEntry<Model>[] = [];
  #queue: QueuedRequest<Model>[] = [];
  #newcomer: Newcomer | undefined;
  /** The model that leaves when its requests are done. */
  #leaving: LoadedEntry<Model> | undefined;
  /** A model is being loaded or closed. */
  #isBusy = false;
  #useCount = 0;
  #lastMainLocation: string | undefined;
  #mainFailures: readonly unknown[] = [];
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(port: PoolPort<Model>, places: PoolPlaces) {
    this.#port = port;
    this.#places = places;
  }

  get main(): Model | undefined {
    return this.#mainEntry?.model;
  }

  /** Whether the main model is being replaced. */
  get isMainLoading(): boolean {
    return this.#newcomer?.role === 'main';
  }

  /** The loaded models: the main one first, then those that were loaded beside it at start. */
  get models(): readonly Model[] {
    const inRole = (role: Role) => this.#entries.filter((entry) => entry.role === role);
    return [...inRole('main'), ...inRole('fixed'), ...inRole('further')].map(({ model }) => model);
  }

  /** Errors of the loads that left the host without a main model, oldest first. */
  get mainFailures(): readonly unknown[] {
    return this.#mainFailures;
  }

  /** Adds a model that was loaded at start. */
  add(location: string, model: Model, role: 'main' | 'fixed'): void {
    if (role === 'main') this.#entries = this.#entries.filter((entry) => entry.role !== 'main');
    this.#addEntry(location, model, role);
    this.#admitNext();
  }

  /** Resolves with the model when it is this request's turn. @param location undefined: the main model */
  async acquire(location: string | undefined, lease: Lease): Promise<Model> {
    lease.signal.throwIfAborted();
    const entry = this.#find(location);
    if (entry && entry !== this.#leaving) return this.#grant(entry, lease);
    if (this.#waitingFor(location).length >= maxWaiting) {
      const message = `${maxWaiting} requests wait for this model to be loaded; try again later.`;
      throw new HttpError(429, 'queue_full', message, { headers: { 'retry-after': '1' } });
    }
    const { promise, resolve, reject } = Promise.withResolvers<Model>();
    const request: QueuedRequest<Model> = { location, lease, grant: resolve, reject };
    this.#queue.push(request);
    this.#admitNext();
    try {
      return await raceAbort(promise, lease.signal);
    } catch (error) {
      throw isDeadline(error) ? this.#withWaitReason(error, location) : error;
    } finally {
      if (this.#queue.includes(request)) {
        this.#dequeue(request);
        this.#admitNext();
      }
    }
  }

  /** Adds what a request waited for to the error of its time limit. */
  #withWaitReason({ status, code, message, headers }: HttpError, location: string | undefined): HttpError {
    const isLoading = this.#isBusy && this.#newcomer?.location === location;
    const reason = isLoading
      ? 'Its model was still being loaded.'
      : 'Its model was not loaded, and waited for the requests of the others.';
    return new HttpError(status, code, `${message} ${reason}`, { headers });
  }

  /** Pins the main model for an admitted request whose work `isIdle` does not cover. */
  pin({ finished }: Lease): void {
    const entry = this.#mainEntry;
    if (!entry) return;
    entry.pinCount += 1;
    void finished.finally(() => {
      entry.pinCount -= 1;
      this.#admitNext();
    });
  }

  /** Closes a further model as soon as no request uses it, unless another request comes first. Others stay. */
  expire(location: string): void {
    const entry = this.#find(location);
    if (entry?.role !== 'further') return;
    entry.isExpiring = true;
    this.#admitNext();
  }

  isExpiring(location: string): boolean {
    return this.#find(location)?.isExpiring ?? false;
  }

  get #mainEntry(): LoadedEntry<Model> | undefined {
    return this.#entries.find(({ role }) => role === 'main');
  }

  #find(location: string | undefined): LoadedEntry<Model> | undefined {
    if (location === undefined) return this.#mainEntry;
    return this.#entries.find((entry) => entry.location === location);
  }

  #waitingFor(location: string | undefined): QueuedRequest<Model>[] {
    return this.#queue.filter((request) => request.location === location);
  }

  #dequeue(request: QueuedRequest<Model>): void {
    this.#queue = this.#queue.filter((other) => other !== request);
  }

  #addEntry(location: string, model: Model, role: Role): void {
    this.#useCount += 1;
    const unused = { leaseCount: 0, pinCount: 0, lastUsed: this.#useCount, isExpiring: false };
    this.#entries.push({ location, model, role, ...unused });
    if (role !== 'main') return;
    this.#lastMainLocation = location;
    this.#mainFailures = [];
  }

  #grant(entry: LoadedEntry<Model>, { finished }: Lease): Model {
    const use = (change: 1 | -1) => {
      entry.leaseCount += change;
      this.#useCount += 1;
      entry.lastUsed = this.#useCount;
    };
    use(1);
    entry.isExpiring = false;
    void finished.finally(() => {
      use(-1);
      this.#admitNext();
    });
    return entry.model;
  }

  /** Models that may be closed for another one, the least recently used first. */
  get #evictable(): LoadedEntry<Model>[] {
    return this.#entries
      .filter(({ role }) => role === 'further' || (role === 'main' && this.#places.canReplaceMain))
      .toSorted((a, b) => a.lastUsed - b.lastUsed);
  }

  /** Admits the requests whose model is loaded, and takes the next step towards the first one whose model is not. */
  #admitNext(): void {
    this.#dropUnwantedNewcomer();
    this.#admitLoaded();
    if (this.#isBusy) return;
    const expired = this.#entries.find((entry) => entry.isExpiring && isUnused(entry));
    if (expired) return void this.#evict(expired);
    const newcomer = (this.#newcomer ??= this.#nextNewcomer());
    if (!newcomer) return;
    newcomer.role ??= this.#openRole();
    if (newcomer.role !== undefined && !newcomer.needsMemory) return void this.#load(newcomer, newcomer.role);
    const [longestUnused] = this.#evictable;
    const unused = this.#evictable.find(isUnused);
    if (unused) return void this.#evict(unused);
    this.#leaving ??= longestUnused;
    this.#startIdleTimer();
  }

  /** Forgets a model whose requests are gone. A main model that was closed for it must be replaced anyway. */
  #dropUnwantedNewcomer(): void {
    const newcomer = this.#newcomer;
    if (!newcomer || this.#isBusy || newcomer.role === 'main') return;
    if (this.#waitingFor(newcomer.location).length > 0) return;
    this.#newcomer = undefined;
    this.#stay();
  }

  /** Nothing needs to leave any more. */
  #stay(): void {
    this.#leaving = undefined;
    clearInterval(this.#idleTimer);
    this.#idleTimer = undefined;
  }

  #admitLoaded(): void {
    let couldLoad = this.isMainLoading;
    for (const request of this.#queue) {
      const entry = this.#find(request.location);
      if (entry && entry !== this.#leaving) {
        this.#dequeue(request);
        request.grant(this.#grant(entry, request.lease));
      } else if (!entry && request.location === undefined && !couldLoad) {
        this.#dequeue(request);
        request.reject(this.#port.absenceError(this.#mainFailures));
      } else if (request.location !== undefined) couldLoad = true;
    }
  }

  /** The first request's model that is neither loaded nor about to leave. */
  #nextNewcomer(): Newcomer | undefined {
    const next = this.#queue.find(({ location }) => location !== undefined && !this.#find(location));
    if (next?.location === undefined) return undefined;
    return { location: next.location, role: undefined, needsMemory: false, mayShrink: false };
  }

  get #openPlaces(): number {
    return this.#places.count - this.#entries.filter(({ role }) => role !== 'fixed').length;
  }

  #openRole(): 'main' | 'further' | undefined {
    if (!this.#mainEntry) return 'main';
    return this.#openPlaces > 0 ? 'further' : undefined;
  }

  /** Closes a model; a newcomer that waits for a place gets this one. */
  async #evict(entry: LoadedEntry<Model>): Promise<void> {
    this.#isBusy = true;
    this.#entries = this.#entries.filter((other) => other !== entry);
    this.#stay();
    const newcomer = this.#newcomer;
    if (newcomer) {
      newcomer.needsMemory = false;
      newcomer.role = entry.role === 'main' ? 'main' : (newcomer.role ?? 'further');
    }
    this.#admitLoaded();
    // A model that fails to close is gone all the same.
    await this.#port.close(entry.model).catch(() => undefined);
    this.#isBusy = false;
    this.#admitNext();
  }

  async #load(newcomer: Newcomer, role: 'main' | 'further'): Promise<void> {
    this.#isBusy = true;
    this.#stay();
    this.#admitLoaded();
    const { location } = newcomer;
    const isMain = role === 'main';
    const keepsContext = !newcomer.mayShrink && this.#evictable.length > 0;
    try {
      const model = await this.#port.load(location, { isMain, keepsContext, openPlaces: this.#openPlaces });
      this.#addEntry(location, model, role);
      this.#newcomer = undefined;
    } catch (error) {
      if (!this.#makesRoom(newcomer, error)) await this.#fail(newcomer, error);
    }
    this.#isBusy = false;
    this.#admitNext();
  }

  /** After a failed load: whether it is to be tried again, with less memory or after closing other models. */
  #makesRoom(newcomer: Newcomer, error: unknown): boolean {
    const missingBytes = this.#port.missingBytes(error);
    if (missingBytes === undefined || this.#evictable.length === 0) return false;
    const evictableBytes = this.#evictable.reduce((sum, { model }) => sum + this.#port.memoryBytes(model), 0);
    if (evictableBytes >= missingBytes) {
      newcomer.needsMemory = true;
      return true;
    }
    if (newcomer.mayShrink) return false;
    newcomer.mayShrink = true;
    return true;
  }

  /** Rejects the requests for a model that cannot be loaded. The main model that was closed for it is loaded again. */
  async #fail({ location, role }: Newcomer, error: unknown): Promise<void> {
    if (role === 'main') {
      this.#mainFailures = [error];
      await this.#restoreMain(location);
    }
    this.#newcomer = undefined;
    for (const request of this.#waitingFor(location)) {
      this.#dequeue(request);
      request.reject(this.#port.toLoadError(location, error));
    }
  }

  async #restoreMain(failed: string): Promise<void> {
    const location = this.#lastMainLocation;
    if (location === undefined || location === failed) return;
    try {
      const params = { isMain: true, keepsContext: false, openPlaces: this.#openPlaces };
      this.#addEntry(location, await this.#port.load(location, params), 'main');
    } catch (error) {
      this.#mainFailures = [...this.#mainFailures, error];
    }
  }

  /** A client that neither reads nor disconnects must not keep a model that has to leave forever. */
  #startIdleTimer(): void {
    if (this.#idleTimer) return;
    let idleSince: number | undefined;
    this.#idleTimer = setInterval(() => {
      const entry = this.#leaving;
      if (!entry || entry.pinCount > 0 || !this.#port.isIdle(entry.model)) idleSince = undefined;
      else idleSince ??= performance.now();
      if (!entry || idleSince === undefined || performance.now() - idleSince < idleTimeoutMs) return;
      if (!this.#isBusy) void this.#evict(entry);
    }, idleTimeoutMs / 10);
    this.#idleTimer.unref();
  }
}

const isDeadline = (error: unknown): error is HttpError =>
  error instanceof HttpError && error.code === 'deadline_exceeded';

const isUnused = ({ leaseCount, pinCount }: LoadedEntry<unknown>): boolean => leaseCount + pinCount === 0;
