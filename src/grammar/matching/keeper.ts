import { GrammarError } from '../types.ts';
import type { Failure, GrammarWorker, Question, Reply, Vocabulary } from './messages.ts';

/** The worker ended, or was given up, through no fault of the one who asked. */
export class Gone extends Error {
  /** Somebody else's question took too long or too much: the next worker is as good as any. */
  readonly byOther: boolean;
  constructor(message: string, byOther: boolean) {
    super(message);
    this.byOther = byOther;
  }
}

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
  readonly onTaken: ((ms: number) => void) | undefined;
}

/**
 * One worker and the questions that wait for its answers. It answers one at a time, in order, but is given no more than one
 * grammar to compile: answers that run wait for that one, not for all that were sent.
 */
export class Keeper {
  readonly #worker: GrammarWorker;
  readonly #times: KeeperTimes;
  readonly #onLate: () => void;
  /** In the order in which the worker has them. */
  readonly #calls = new Map<number, Call>();
  /** Grammars that it is not given yet. */
  readonly #held = new Map<number, Call>();
  #last = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When it began with the question it is at. */
  #began = 0;
  #ended: { readonly why: string; readonly byOther: boolean } | undefined;
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
    return this.#calls.size + this.#held.size === 0 && this.residents === 0;
  }

  /**
   * @param onTaken told how long the worker was at the question, others before it not counted
   * @throws GrammarError the source is refused, or takes too long
   * @throws Gone the worker ended because of another question
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
    for (const [call, { question, reject }] of [...others, ...this.#held]) {
      if (question.kind === 'forget' || question.kind === 'stop') continue;
      this.#calls.delete(call);
      this.#held.delete(call);
      reject(new Gone('another question takes long', true));
    }
  }

  /** From now on the question it is at has no longer than this; the one who asked hears the refusal then. */
  hurry(ms: number, refusal: GrammarError): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end('another question took long', refusal), ms);
  }

  /** @param culprit what the one must hear whose question it is at; the others hear that it is gone */
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
      // Given back meanwhile; the time it took is not the next one's.
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

  /** Times the question it is at. */
  #watch(): void {
    clearTimeout(this.#timer);
    this.#late = false;
    this.#began = performance.now();
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
        () => this.end('a grammar took too long', tooLong(deadlineMs)),
        deadlineMs - patienceMs,
      );
      this.#late = true;
      this.#onLate();
    }, patienceMs);
  }
}

const gone = ({ why, byOther }: { why: string; byOther: boolean }): Gone => new Gone(why, byOther);

/** @param when what else had its part in it */
export const tooLong = (deadlineMs: number, when = ''): GrammarError =>
  new GrammarError(
    'grammar_too_complex',
    `the grammar took more than ${deadlineMs / 1000} s${when}; make it smaller, or its repetitions fewer`,
  );

/** The library fails on what is too much for its memory; a grammar that it cannot read is refused before. */
const broken = (question: Question, message: string): Error =>
  question.kind === 'compile' || question.kind === 'start' || question.kind === 'next'
    ? new GrammarError(
        'grammar_too_complex',
        `the grammar was too much for its matcher (${message}); make it smaller, or its repetitions fewer`,
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
