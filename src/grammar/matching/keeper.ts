import { GrammarError } from '../types.ts';
import type { Failure, GrammarWorker, Question, Reply, Vocabulary } from './messages.ts';

/** The worker ended, or was given up, through no fault of the one who asked. */
export class Gone extends Error {}

export interface KeeperTimes {
  /** After so long a question is late: others move to another worker. */
  readonly patienceMs: number;
  /** After so long the worker is ended. */
  readonly deadlineMs: number;
}

const startMs = 60_000;

interface Call {
  readonly question: Question;
  readonly resolve: (value: Uint32Array | number | undefined) => void;
  readonly reject: (error: Error) => void;
}

/** One worker and the questions that wait for its answers. It answers one at a time, in order. */
export class Keeper {
  readonly #worker: GrammarWorker;
  readonly #times: KeeperTimes;
  readonly #onLate: () => void;
  /** In the order in which they were asked. */
  readonly #calls = new Map<number, Call>();
  #last = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ended: string | undefined;
  #late = false;
  /** Constraints that live in it. */
  residents = 0;

  /** @param onLate a question takes long; called once for each, and only those after it are concerned */
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
    return this.#calls.size === 0 && this.residents === 0;
  }

  /**
   * @throws GrammarError the source is refused, or takes too long
   * @throws Gone the worker ended because of another question
   */
  ask(question: Question): Promise<Uint32Array | number | undefined> {
    if (this.#ended !== undefined) return Promise.reject(new Gone(this.#ended));
    const call = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { question, resolve, reject });
      if (this.#calls.size === 1) this.#watch();
      this.#worker.post({ call, question }, []);
    });
  }

  /** For what needs no answer. */
  tell(question: Question): void {
    this.ask(question).catch(() => {});
  }

  /** It is at something that takes long. */
  get late(): boolean {
    return this.#late;
  }

  /** Questions that wait behind the one it is at are given back. */
  release(): void {
    const [, ...others] = this.#calls;
    for (const [call, { question, reject }] of others) {
      if (question.kind === 'forget' || question.kind === 'stop') continue;
      this.#calls.delete(call);
      reject(new Gone('another question takes long'));
    }
  }

  /** @param culprit what the one must hear whose question it is at; the others hear that it is gone */
  end(why: string, culprit?: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = why;
    clearTimeout(this.#timer);
    this.#worker.terminate();
    let error = culprit;
    for (const { reject } of this.#calls.values()) {
      reject(error ?? new Gone(why));
      error = undefined;
    }
    this.#calls.clear();
  }

  #settle(reply: Reply): void {
    const call = this.#calls.get(reply.call);
    if (!call) {
      // Given back meanwhile; the time it took is not the next one's.
      this.#watch();
      return;
    }
    const failed = 'failed' in reply ? reply.failed : undefined;
    if (failed?.kind === 'broken') {
      this.end(failed.message, broken(call.question, failed.message));
      return;
    }
    this.#calls.delete(reply.call);
    if (failed) call.reject(errorOf(failed));
    else call.resolve('value' in reply ? reply.value : undefined);
    this.#watch();
  }

  /** Times the question it is at. */
  #watch(): void {
    clearTimeout(this.#timer);
    this.#late = false;
    const [current] = this.#calls.values();
    if (!current || this.#ended !== undefined) return;
    if (current.question.kind === 'vocabulary') {
      // A thread starts slowly on a busy machine, and nobody's grammar is at fault.
      this.#timer = setTimeout(() => this.end('its worker did not start'), startMs);
      return;
    }
    const { patienceMs, deadlineMs } = this.#times;
    this.#timer = setTimeout(() => {
      this.#timer = setTimeout(
        () => this.end('a grammar took too long', late(deadlineMs)),
        deadlineMs - patienceMs,
      );
      this.#late = true;
      this.#onLate();
    }, patienceMs);
  }
}

const late = (deadlineMs: number): GrammarError =>
  new GrammarError(
    'grammar_too_complex',
    `the grammar took more than ${deadlineMs / 1000} s; make it smaller, or its repetitions fewer`,
  );

/** The library fails on what is too much for its memory; a grammar that it cannot read is refused before. */
const broken = (question: Question, message: string): Error =>
  question.kind === 'compile' || question.kind === 'start' || question.kind === 'next'
    ? new GrammarError(
        'grammar_too_complex',
        `the grammar was too much for its matcher (${message}); make it smaller, or its repetitions fewer`,
      )
    : new Gone(message);

function errorOf(failure: Exclude<Failure, { kind: 'broken' }>): Error {
  if (failure.kind === 'token') return new Error(failure.message);
  return new GrammarError(
    failure.code,
    failure.message,
    failure.path === undefined ? {} : { path: failure.path },
  );
}
