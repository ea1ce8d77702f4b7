import { GrammarError } from '../types.ts';
import type { Failure, GrammarWorker, Question, Reply, Vocabulary } from './messages.ts';

/** The worker ended or the request was returned, but the request is not the cause. */
export class Gone extends Error {
  /** Whether another request is the cause; then a retry in a new worker can succeed. */
  readonly byOther: boolean;
  constructor(message: string, byOther: boolean) {
    super(message);
    this.byOther = byOther;
  }
}

export interface KeeperTimes {
  /** After this time a request is slow, and other requests move to another worker. */
  readonly patienceMs: number;
  /** After this time the worker is terminated. */
  readonly deadlineMs: number;
}

const startMs = 60_000;

interface Call {
  readonly question: Question;
  readonly resolve: (value: Uint32Array | number | undefined) => void;
  readonly reject: (error: Error) => void;
  readonly onTaken: ((ms: number) => void) | undefined;
}

/**
 * Client of one grammar worker, with its pending requests. The worker handles requests one at a time, in order. At most
 * one compilation is sent at a time, so that running answers wait for one compilation and not for all queued ones.
 */
export class Keeper {
  readonly #worker: GrammarWorker;
  readonly #times: KeeperTimes;
  readonly #onLate: () => void;
  /** Sent requests, in the order in which the worker handles them. */
  readonly #calls = new Map<number, Call>();
  /** Compilations that are not sent yet. */
  readonly #held = new Map<number, Call>();
  #last = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the worker started the current request. */
  #began = 0;
  #ended: { readonly why: string; readonly byOther: boolean } | undefined;
  #late = false;
  /** Number of matchers that exist in the worker. */
  residents = 0;

  /** @param onSlow called once for each request that is slow */
  constructor(worker: GrammarWorker, vocabulary: Vocabulary, times: KeeperTimes, onLate: () => void) {
    this.#worker = worker;
    this.#times = times;
    this.#onLate = onLate;
    worker.onReply((reply) => this.#settle(reply));
    worker.onEnd((why) => this.end(why));
    this.ask({ kind: 'vocabulary', vocabulary }).catch(() => {});
  }

  get ended(): boolean {
    return this.#ended !== undefined;
  }

  get idle(): boolean {
    return this.#calls.size + this.#held.size === 0 && this.residents === 0;
  }

  /**
   * Sends a request and waits for its reply.
   * @param onDuration receives the time that the worker took for this request, without waiting time
   * @throws GrammarError the grammar is rejected, or takes too long
   * @throws WorkerLostError the worker ended because of another request
   */
  ask(question: Question, onTaken?: (ms: number) => void): Promise<Uint32Array | number | undefined> {
    if (this.#ended !== undefined) return Promise.reject(gone(this.#ended));
    const call = ++this.#last;
    return new Promise((resolve, reject) => {
      const asked = { question, resolve, reject, onTaken };
      if (question.kind === 'compile' && this.#compiles) this.#held.set(call, asked);
      else this.#post(call, asked);
    });
  }

  get #compiles(): boolean {
    return [...this.#calls.values()].some(({ question }) => question.kind === 'compile');
  }

  #post(call: number, asked: Call): void {
    this.#calls.set(call, asked);
    if (this.#calls.size === 1) this.#watch();
    this.#worker.post({ call, question: asked.question }, []);
  }

  #postHeld(): void {
    const [next] = this.#held;
    if (!next || this.#compiles) return;
    this.#held.delete(next[0]);
    this.#post(...next);
  }

  /** Sends a request without waiting for a reply. */
  tell(question: Question): void {
    this.ask(question).catch(() => {});
  }

  /** Whether the current request is slow. */
  get late(): boolean {
    return this.#late;
  }

  /** Rejects the requests that wait behind the current one with WorkerLostError. */
  release(): void {
    const [, ...others] = this.#calls;
    for (const [call, { question, reject }] of [...others, ...this.#held]) {
      if (question.kind === 'forget' || question.kind === 'stop') continue;
      this.#calls.delete(call);
      this.#held.delete(call);
      reject(new Gone('another request is slow', true));
    }
  }

  /** Limits the rest of the current request to `ms`; then it fails with `error`. */
  hurry(ms: number, refusal: GrammarError): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end('another request took too long', refusal), ms);
  }

  /**
   * Terminates the worker.
   * @param currentCallError rejects the current request; the others are rejected with WorkerLostError
   */
  end(why: string, culprit?: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = { why, byOther: culprit !== undefined };
    clearTimeout(this.#timer);
    this.#worker.terminate();
    let error = culprit;
    for (const { reject } of [...this.#calls.values(), ...this.#held.values()]) {
      reject(error ?? gone(this.#ended));
      error = undefined;
    }
    this.#calls.clear();
    this.#held.clear();
  }

  #settle(reply: Reply): void {
    const call = this.#calls.get(reply.call);
    if (!call) {
      // Rejected meanwhile. Restart the timer, so that its time does not count for the next request.
      this.#watch();
      this.#postHeld();
      return;
    }
    const failed = 'failed' in reply ? reply.failed : undefined;
    if (failed?.kind === 'broken') {
      this.end(failed.message, broken(call.question, failed.message));
      return;
    }
    this.#calls.delete(reply.call);
    call.onTaken?.(performance.now() - this.#began);
    if (failed) call.reject(errorOf(failed));
    else call.resolve('value' in reply ? reply.value : undefined);
    this.#watch();
    this.#postHeld();
  }

  /** Starts the timeouts of the current request. */
  #watch(): void {
    clearTimeout(this.#timer);
    this.#late = false;
    this.#began = performance.now();
    const [current] = this.#calls.values();
    if (!current || this.#ended !== undefined) return;
    if (current.question.kind === 'vocabulary') {
      // A thread may start slowly on a busy machine, which is not the fault of a grammar.
      this.#timer = setTimeout(() => this.end('the grammar worker did not start in time'), startMs);
      return;
    }
    const { patienceMs, deadlineMs } = this.#times;
    this.#timer = setTimeout(() => {
      this.#timer = setTimeout(
        () => this.end('a grammar took too long', tooLong(deadlineMs)),
        deadlineMs - patienceMs,
      );
      this.#late = true;
      this.#onLate();
    }, patienceMs);
  }
}

const gone = ({ why, byOther }: { why: string; byOther: boolean }): Gone => new Gone(why, byOther);

/** @param circumstance additional cause, for the message */
export const tooLong = (deadlineMs: number, when = ''): GrammarError =>
  new GrammarError(
    'grammar_too_complex',
    `the grammar took more than ${deadlineMs / 1000} s${when}; make it smaller, or reduce its repetitions`,
  );

/** The library failed, most likely because it ran out of memory: invalid grammars are rejected before. */
const broken = (question: Question, message: string): Error =>
  question.kind === 'compile' || question.kind === 'start' || question.kind === 'next'
    ? new GrammarError(
        'grammar_too_complex',
        `the grammar matcher failed (${message}); make the grammar smaller, or reduce its repetitions`,
      )
    : new Gone(message, false);

function errorOf(failure: Exclude<Failure, { kind: 'broken' }>): Error {
  if (failure.kind === 'token') return new Error(failure.message);
  return new GrammarError(
    failure.code,
    failure.message,
    failure.path === undefined ? {} : { path: failure.path },
  );
}
