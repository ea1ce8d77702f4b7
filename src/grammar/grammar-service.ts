import type { Constraint, Tokenizer } from '../engine/index.ts';
import { raceAbort } from '../util/race-abort.ts';
import {
  WorkerLostError,
  GrammarWorkerClient,
  type WorkerTimeouts,
  createTimeoutError,
} from './matching/worker-client.ts';
import type { GrammarWorker, GrammarVocabulary } from './matching/messages.ts';
import { collectVocabulary } from './matching/collect-vocabulary.ts';
import type { Grammar, GrammarService, GrammarSource } from './types.ts';

export interface GrammarServiceOptions {
  readonly tokenizer: Tokenizer;
  /** Size of the model's output, at least the number of tokens. */
  readonly vocabSize: number;
  readonly startWorker: () => GrammarWorker;
  readonly timeouts?: Partial<WorkerTimeouts>;
  /** Limits of the cache: number of grammars, and total characters of their sources. */
  readonly cache?: { readonly count?: number; readonly size?: number };
}

const defaultTimeouts: WorkerTimeouts = { slowAfterMs: 1000, timeoutMs: 10_000 };
const defaultCacheLimits = { count: 64, size: 16 * 2 ** 20 };
/** Slow workers that may run in addition to the current one. */
const maxSlowWorkers = 2;
/** A worker that uses more bytes is replaced. Its hard limit is higher. */
const maxWorkerMemoryBytes = 512 * 2 ** 20;
const maxRetries = 4;
/** Time above this counts as excess of the constraint, whose total excess is limited to the timeout of one request. */
const normalMaskMs = 100;

/** Creates the grammar service of a model. Its worker starts with the first grammar. */
export function createGrammarService(options: GrammarServiceOptions): GrammarService {
  return new WorkerGrammarService(options);
}

/** A grammar source and its compiled copies in workers. */
interface CacheEntry {
  readonly key: string;
  readonly source: GrammarSource;
  readonly visible: readonly (readonly [id: number, text: string])[];
  readonly workerCopies: Map<GrammarWorkerClient, WorkerCopy>;
  /** Number of running constraints. */
  activeConstraints: number;
  isCached: boolean;
}

interface WorkerCopy {
  readonly id: number;
  readonly compilation: Promise<unknown>;
  isCompiled: boolean;
}

class WorkerGrammarService implements GrammarService {
  readonly #options: GrammarServiceOptions;
  readonly #timeouts: WorkerTimeouts;
  readonly #cache: { count: number; size: number };
  /** In order of use, the least recently used first. */
  readonly #entries = new Map<string, CacheEntry>();
  readonly #slowWorkers = new Set<GrammarWorkerClient>();
  #sourceCharacters = 0;
  #client: GrammarWorkerClient | undefined;
  #vocabulary: Promise<GrammarVocabulary> | undefined;
  #lastId = 0;
  #closed = false;

  constructor(options: GrammarServiceOptions) {
    this.#options = options;
    this.#timeouts = { ...defaultTimeouts, ...options.timeouts };
    this.#cache = { ...defaultCacheLimits, ...options.cache };
  }

  async compile(
    source: GrammarSource,
    { visible = new Set(), signal }: { visible?: ReadonlySet<number>; signal?: AbortSignal } = {},
  ): Promise<Grammar> {
    signal?.throwIfAborted();
    const entry = this.#getEntry(source, visible);
    const compilation = this.#retryOnWorkerLoss(async () => {
      await this.#ensureCompiled(entry);
    });
    try {
      await (signal ? raceAbort(compilation, signal) : compilation);
    } catch (error) {
      // Do not cache failures. An aborted caller keeps the compilation running for other callers.
      if (!signal?.aborted) this.#evict(entry);
      else compilation.catch(() => this.#evict(entry));
      throw error;
    }
    this.#evictOverLimit(entry);
    return { start: () => new RunningConstraint(this.#createContext(entry)) };
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const client of [this.#client, ...this.#slowWorkers]) client?.end('the grammars are closed');
    this.#entries.clear();
    return Promise.resolve();
  }

  #getEntry(source: GrammarSource, visible: ReadonlySet<number>): CacheEntry {
    const { tokenizer } = this.#options;
    const visibleTexts = [...visible]
      .sort((a, b) => a - b)
      .map((id) => [id, tokenizer.tokenText(id)] as const);
    const key = JSON.stringify([source, visibleTexts]);
    const existing = this.#entries.get(key);
    if (existing) this.#entries.delete(key);
    else this.#sourceCharacters += key.length;
    const entry = existing ?? {
      key,
      source,
      visible: visibleTexts,
      workerCopies: new Map(),
      activeConstraints: 0,
      isCached: true,
    };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Returns a worker that has the grammar and its id there; compiles it first if no worker has it. */
  async #ensureCompiled(entry: CacheEntry): Promise<{ client: GrammarWorkerClient; id: number }> {
    for (const [client, { id, compilation, isCompiled }] of entry.workerCopies) {
      if (client.ended) entry.workerCopies.delete(client);
      // Do not wait for a slow worker that is busy with another grammar.
      else if (!isCompiled || !client.isSlow) {
        await compilation;
        return { client, id };
      }
    }
    const client = await this.#getClient();
    const concurrentCopy = entry.workerCopies.get(client);
    if (concurrentCopy) {
      await concurrentCopy.compilation;
      return { client, id: concurrentCopy.id };
    }
    const id = ++this.#lastId;
    const compilation = client.request({
      kind: 'compile',
      grammar: id,
      source: entry.source,
      visible: entry.visible,
    });
    const copy: WorkerCopy = { id, compilation, isCompiled: false };
    entry.workerCopies.set(client, copy);
    try {
      const memory = await compilation;
      copy.isCompiled = true;
      if (typeof memory === 'number' && memory > maxWorkerMemoryBytes && this.#client === client)
        this.#detach(client);
    } catch (error) {
      entry.workerCopies.delete(client);
      throw error;
    }
    return { client, id };
  }

  async #getClient(): Promise<GrammarWorkerClient> {
    this.#vocabulary ??= collectVocabulary(this.#options.tokenizer, this.#options.vocabSize);
    const vocabulary = await this.#vocabulary;
    if (this.#closed) throw new Error('the grammars are closed: the model is unloaded');
    if (this.#client && !this.#client.ended) return this.#client;
    const client = new GrammarWorkerClient(this.#options.startWorker(), vocabulary, this.#timeouts, () =>
      this.#handleSlowWorker(client),
    );
    this.#client = client;
    return client;
  }

  /**
   * Handles a slow request: the worker continues with it, and all other requests move to a new worker. When there are
   * already too many slow workers, the timeout of the request is shortened, so that a client with many slow grammars
   * does not delay others for long.
   */
  #handleSlowWorker(client: GrammarWorkerClient): void {
    if (this.#client !== client) return;
    for (const slowWorker of this.#slowWorkers) this.#endIfIdle(slowWorker);
    if (this.#slowWorkers.size >= maxSlowWorkers) {
      const { slowAfterMs } = this.#timeouts;
      client.shortenTimeout(
        2 * slowAfterMs,
        createTimeoutError(3 * slowAfterMs, ' while other slow grammars were running'),
      );
      return;
    }
    this.#detach(client);
    client.rejectWaiting();
  }

  #detach(client: GrammarWorkerClient): void {
    this.#client = undefined;
    this.#slowWorkers.add(client);
    const timer = setInterval(() => {
      this.#endIfIdle(client);
      if (client.ended) clearInterval(timer);
    }, this.#timeouts.timeoutMs);
    // Unref Node timers, which would keep the process alive; browser timers are numbers.
    if (typeof timer === 'object') timer.unref();
  }

  #endIfIdle(client: GrammarWorkerClient): void {
    if (client.isIdle) client.end('it is not needed any more');
    if (client.ended) this.#slowWorkers.delete(client);
  }

  #evictOverLimit(latest: CacheEntry): void {
    for (const entry of this.#entries.values()) {
      if (this.#entries.size <= this.#cache.count && this.#sourceCharacters <= this.#cache.size) return;
      if (entry !== latest) this.#evict(entry);
    }
  }

  #evict(entry: CacheEntry): void {
    if (this.#entries.get(entry.key) === entry) {
      this.#entries.delete(entry.key);
      this.#sourceCharacters -= entry.key.length;
    }
    entry.isCached = false;
    this.#freeIfUnused(entry);
  }

  /** Frees the compiled copies of an entry that is neither cached nor in use. */
  #freeIfUnused(entry: CacheEntry): void {
    if (entry.isCached || entry.activeConstraints > 0) return;
    for (const [client, { id }] of entry.workerCopies) client.notify({ kind: 'forget', grammar: id });
    entry.workerCopies.clear();
  }

  /** Retries an operation whose worker was lost because of another request. */
  async #retryOnWorkerLoss<T>(operation: () => Promise<T>): Promise<T> {
    for (let retries = 0; ; retries++) {
      try {
        return await operation();
      } catch (error) {
        if (!(error instanceof WorkerLostError) || this.#closed) throw error;
        if (error.causedByOther) retries--;
        else if (retries >= maxRetries)
          throw new Error(`the grammar worker failed repeatedly: ${error.message}`, { cause: error });
      }
    }
  }

  /** Creates the context of the entry's constraints. */
  #createContext(entry: CacheEntry): ConstraintContext {
    return {
      retain: () => {
        entry.activeConstraints++;
      },
      release: () => {
        entry.activeConstraints--;
        this.#freeIfUnused(entry);
      },
      retryOnWorkerLoss: (operation) => this.#retryOnWorkerLoss(operation),
      maxExcessMs: this.#timeouts.timeoutMs,
      startMatcher: async (accepted) => {
        const { client, id } = await this.#ensureCompiled(entry);
        const matcher = ++this.#lastId;
        client.activeMatchers++;
        try {
          await client.request({ kind: 'start', matcher, grammar: id, accepted });
        } catch (error) {
          client.activeMatchers--;
          throw error;
        }
        return { client, matcher };
      },
    };
  }
}

interface ConstraintContext {
  retain(): void;
  release(): void;
  retryOnWorkerLoss<T>(operation: () => Promise<T>): Promise<T>;
  readonly maxExcessMs: number;
  startMatcher(accepted: readonly number[]): Promise<MatcherLocation>;
}

/** A matcher in a worker. */
interface MatcherLocation {
  readonly client: GrammarWorkerClient;
  readonly matcher: number;
}

class RunningConstraint implements Constraint {
  readonly #context: ConstraintContext;
  /** All tokens so far, to be replayed when the worker is lost. */
  readonly #accepted: number[] = [];
  #location: MatcherLocation | undefined;
  /** Total worker time of its masks above the normal time. */
  #excessMs = 0;
  #state: 'new' | 'running' | 'closed' = 'new';

  constructor(context: ConstraintContext) {
    this.#context = context;
  }

  async next(accepted: readonly number[]): Promise<Uint32Array | undefined> {
    if (this.#state === 'closed') throw new Error('the constraint is closed');
    if (this.#excessMs > this.#context.maxExcessMs) throw createTimeoutError(this.#context.maxExcessMs);
    if (this.#state === 'new') this.#context.retain();
    this.#state = 'running';
    this.#accepted.push(...accepted);
    let newTokens = accepted;
    const mask = await this.#context.retryOnWorkerLoss(async () => {
      if (this.#location?.client.ended || this.#location?.client.isSlow) this.#detach();
      if (!this.#location) {
        this.#location = await this.#context.startMatcher(this.#accepted);
        newTokens = [];
        if (this.#isClosed()) {
          this.#detach();
          throw new Error('the constraint is closed');
        }
      }
      const { client, matcher } = this.#location;
      try {
        return await client.request({ kind: 'next', matcher, accepted: newTokens }, (ms) => {
          this.#excessMs += Math.max(0, ms - normalMaskMs);
        });
      } catch (error) {
        if (error instanceof WorkerLostError) this.#detach();
        throw error;
      }
    });
    return mask as Uint32Array | undefined;
  }

  close(): void {
    if (this.#state === 'running') this.#context.release();
    this.#state = 'closed';
    this.#detach();
  }

  #isClosed(): boolean {
    return this.#state === 'closed';
  }

  #detach(): void {
    const location = this.#location;
    this.#location = undefined;
    if (!location) return;
    location.client.activeMatchers--;
    location.client.notify({ kind: 'stop', matcher: location.matcher });
  }
}
