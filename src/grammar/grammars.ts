import type { Constraint, Tokenizer } from '../engine/index.ts';
import { unlessAborted } from '../util/abort.ts';
import { Gone, Keeper, type KeeperTimes, tooLong } from './matching/keeper.ts';
import type { GrammarWorker, Vocabulary } from './matching/messages.ts';
import { vocabularyOf } from './matching/vocabulary.ts';
import type { Grammar, Grammars, GrammarSource } from './types.ts';

export interface GrammarsOptions {
  readonly tokenizer: Tokenizer;
  /** Size of the model's output, at least the number of tokens. */
  readonly vocabSize: number;
  readonly startWorker: () => GrammarWorker;
  readonly times?: Partial<KeeperTimes>;
  /** Limits of the cache: number of grammars, and total characters of their sources. */
  readonly cache?: { readonly count?: number; readonly size?: number };
}

const usualTimes: KeeperTimes = { patienceMs: 1000, deadlineMs: 10_000 };
const usualCache = { count: 64, size: 16 * 2 ** 20 };
/** Slow workers that may run in addition to the current one. */
const mostLate = 2;
/** A worker that uses more bytes is replaced. Its hard limit is higher. */
const mostMemory = 512 * 2 ** 20;
const mostMoves = 4;
/** Time above this counts as excess of the constraint, whose total excess is limited to the timeout of one request. */
const usualMaskMs = 100;

/** Creates the grammar service of a model. Its worker starts with the first grammar. */
export function openGrammars(options: GrammarsOptions): Grammars {
  return new OpenGrammars(options);
}

/** A grammar source and its compiled copies in workers. */
interface Entry {
  readonly key: string;
  readonly source: GrammarSource;
  readonly visible: readonly (readonly [id: number, text: string])[];
  readonly homes: Map<Keeper, Home>;
  /** Number of running constraints. */
  users: number;
  cached: boolean;
}

interface Home {
  readonly id: number;
  readonly ready: Promise<unknown>;
  compiled: boolean;
}

class OpenGrammars implements Grammars {
  readonly #options: GrammarsOptions;
  readonly #times: KeeperTimes;
  readonly #cache: { count: number; size: number };
  /** In order of use, the least recently used first. */
  readonly #entries = new Map<string, Entry>();
  readonly #late = new Set<Keeper>();
  #size = 0;
  #keeper: Keeper | undefined;
  #vocabulary: Promise<Vocabulary> | undefined;
  #last = 0;
  #closed = false;

  constructor(options: GrammarsOptions) {
    this.#options = options;
    this.#times = { ...usualTimes, ...options.times };
    this.#cache = { ...usualCache, ...options.cache };
  }

  async compile(
    source: GrammarSource,
    { visible = new Set(), signal }: { visible?: ReadonlySet<number>; signal?: AbortSignal } = {},
  ): Promise<Grammar> {
    signal?.throwIfAborted();
    const entry = this.#entry(source, visible);
    const ready = this.#moving(async () => {
      await this.#ready(entry);
    });
    try {
      await (signal ? unlessAborted(ready, signal) : ready);
    } catch (error) {
      // Do not cache failures. An aborted caller keeps the compilation running for other callers.
      if (!signal?.aborted) this.#drop(entry);
      else ready.catch(() => this.#drop(entry));
      throw error;
    }
    this.#shrink(entry);
    return { start: () => new RunningConstraint(this.#lives(entry)) };
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const keeper of [this.#keeper, ...this.#late]) keeper?.end('the grammars are closed');
    this.#entries.clear();
    return Promise.resolve();
  }

  #entry(source: GrammarSource, visible: ReadonlySet<number>): Entry {
    const { tokenizer } = this.#options;
    const shown = [...visible].sort((a, b) => a - b).map((id) => [id, tokenizer.tokenText(id)] as const);
    const key = JSON.stringify([source, shown]);
    const known = this.#entries.get(key);
    if (known) this.#entries.delete(key);
    else this.#size += key.length;
    const entry = known ?? { key, source, visible: shown, homes: new Map(), users: 0, cached: true };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Returns a worker that has the grammar and its id there; compiles it first if no worker has it. */
  async #ready(entry: Entry): Promise<{ keeper: Keeper; id: number }> {
    for (const [keeper, { id, ready, compiled }] of entry.homes) {
      if (keeper.ended) entry.homes.delete(keeper);
      // Do not wait for a slow worker that is busy with another grammar.
      else if (!compiled || !keeper.late) {
        await ready;
        return { keeper, id };
      }
    }
    const keeper = await this.#current();
    const raced = entry.homes.get(keeper);
    if (raced) {
      await raced.ready;
      return { keeper, id: raced.id };
    }
    const id = ++this.#last;
    const ready = keeper.ask({ kind: 'compile', grammar: id, source: entry.source, visible: entry.visible });
    const home: Home = { id, ready, compiled: false };
    entry.homes.set(keeper, home);
    try {
      const memory = await ready;
      home.compiled = true;
      if (typeof memory === 'number' && memory > mostMemory && this.#keeper === keeper) this.#leave(keeper);
    } catch (error) {
      entry.homes.delete(keeper);
      throw error;
    }
    return { keeper, id };
  }

  async #current(): Promise<Keeper> {
    this.#vocabulary ??= vocabularyOf(this.#options.tokenizer, this.#options.vocabSize);
    const vocabulary = await this.#vocabulary;
    if (this.#closed) throw new Error('the grammars are closed: the model is unloaded');
    if (this.#keeper && !this.#keeper.ended) return this.#keeper;
    const keeper = new Keeper(this.#options.startWorker(), vocabulary, this.#times, () =>
      this.#onLate(keeper),
    );
    this.#keeper = keeper;
    return keeper;
  }

  /**
   * Handles a slow request: the worker continues with it, and all other requests move to a new worker. When there are
   * already too many slow workers, the timeout of the request is shortened, so that a client with many slow grammars
   * does not delay others for long.
   */
  #onLate(keeper: Keeper): void {
    if (this.#keeper !== keeper) return;
    for (const other of this.#late) this.#tidy(other);
    if (this.#late.size >= mostLate) {
      const { patienceMs } = this.#times;
      keeper.hurry(2 * patienceMs, tooLong(3 * patienceMs, ' while other slow grammars were running'));
      return;
    }
    this.#leave(keeper);
    keeper.release();
  }

  #leave(keeper: Keeper): void {
    this.#keeper = undefined;
    this.#late.add(keeper);
    const tidy = setInterval(() => {
      this.#tidy(keeper);
      if (keeper.ended) clearInterval(tidy);
    }, this.#times.deadlineMs);
    // Unref Node timers, which would keep the process alive; browser timers are numbers.
    if (typeof tidy === 'object') tidy.unref();
  }

  #tidy(keeper: Keeper): void {
    if (keeper.idle) keeper.end('it is not needed any more');
    if (keeper.ended) this.#late.delete(keeper);
  }

  #shrink(latest: Entry): void {
    for (const entry of this.#entries.values()) {
      if (this.#entries.size <= this.#cache.count && this.#size <= this.#cache.size) return;
      if (entry !== latest) this.#drop(entry);
    }
  }

  #drop(entry: Entry): void {
    if (this.#entries.get(entry.key) === entry) {
      this.#entries.delete(entry.key);
      this.#size -= entry.key.length;
    }
    entry.cached = false;
    this.#forgetUnused(entry);
  }

  /** Frees the compiled copies of an entry that is neither cached nor in use. */
  #forgetUnused(entry: Entry): void {
    if (entry.cached || entry.users > 0) return;
    for (const [keeper, { id }] of entry.homes) keeper.tell({ kind: 'forget', grammar: id });
    entry.homes.clear();
  }

  /** Retries an operation whose worker was lost because of another request. */
  async #moving<T>(work: () => Promise<T>): Promise<T> {
    for (let moves = 0; ; moves++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Gone) || this.#closed) throw error;
        if (error.byOther) moves--;
        else if (moves >= mostMoves)
          throw new Error(`the grammar worker failed repeatedly: ${error.message}`, { cause: error });
      }
    }
  }

  /** Creates the context of the entry's constraints. */
  #lives(entry: Entry): Lives {
    return {
      begin: () => {
        entry.users++;
      },
      end: () => {
        entry.users--;
        this.#forgetUnused(entry);
      },
      move: (work) => this.#moving(work),
      mostExcessMs: this.#times.deadlineMs,
      start: async (accepted) => {
        const { keeper, id } = await this.#ready(entry);
        const matcher = ++this.#last;
        keeper.residents++;
        try {
          await keeper.ask({ kind: 'start', matcher, grammar: id, accepted });
        } catch (error) {
          keeper.residents--;
          throw error;
        }
        return { keeper, matcher };
      },
    };
  }
}

interface Lives {
  begin(): void;
  end(): void;
  move<T>(work: () => Promise<T>): Promise<T>;
  readonly mostExcessMs: number;
  start(accepted: readonly number[]): Promise<Place>;
}

/** A matcher in a worker. */
interface Place {
  readonly keeper: Keeper;
  readonly matcher: number;
}

class RunningConstraint implements Constraint {
  readonly #lives: Lives;
  /** All tokens so far, to be replayed when the worker is lost. */
  readonly #accepted: number[] = [];
  #place: Place | undefined;
  /** Total worker time of its masks above the normal time. */
  #excessMs = 0;
  #state: 'new' | 'running' | 'closed' = 'new';

  constructor(lives: Lives) {
    this.#lives = lives;
  }

  async next(accepted: readonly number[]): Promise<Uint32Array | undefined> {
    if (this.#state === 'closed') throw new Error('the constraint is closed');
    if (this.#excessMs > this.#lives.mostExcessMs) throw tooLong(this.#lives.mostExcessMs);
    if (this.#state === 'new') this.#lives.begin();
    this.#state = 'running';
    this.#accepted.push(...accepted);
    let news = accepted;
    const mask = await this.#lives.move(async () => {
      if (this.#place?.keeper.ended || this.#place?.keeper.late) this.#leave();
      if (!this.#place) {
        this.#place = await this.#lives.start(this.#accepted);
        news = [];
        if (this.#closed()) {
          this.#leave();
          throw new Error('the constraint is closed');
        }
      }
      const { keeper, matcher } = this.#place;
      try {
        return await keeper.ask({ kind: 'next', matcher, accepted: news }, (ms) => {
          this.#excessMs += Math.max(0, ms - usualMaskMs);
        });
      } catch (error) {
        if (error instanceof Gone) this.#leave();
        throw error;
      }
    });
    return mask as Uint32Array | undefined;
  }

  close(): void {
    if (this.#state === 'running') this.#lives.end();
    this.#state = 'closed';
    this.#leave();
  }

  #closed(): boolean {
    return this.#state === 'closed';
  }

  #leave(): void {
    const place = this.#place;
    this.#place = undefined;
    if (!place) return;
    place.keeper.residents--;
    place.keeper.tell({ kind: 'stop', matcher: place.matcher });
  }
}
