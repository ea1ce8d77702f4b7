import { GrammarError } from '../types.ts';
import type { Failure, GrammarWorker, GrammarRequest, GrammarReply, GrammarVocabulary } from './messages.ts';

/** The worker ended or the request was returned, but the request is not the cause. */
export class WorkerLostError extends Error {
  /** Whether another request is the cause; then a retry in a new worker can succeed. */
  readonly causedByOther: boolean;
  constructor(message: string, causedByOther: boolean) {
    super(message);
    this.causedByOther = causedByOther;
  }
}

export interface WorkerTimeouts {
  /** After this time a request is slow, and other requests move to another worker. */
  readonly slowAfterMs: number;
  /** After this time the worker is terminated. */
  readonly timeoutMs: number;
}

const startTimeoutMs = 60_000;

interface PendingCall {
  readonly question: GrammarRequest;
  readonly resolve: (value: Uint32Array | number | undefined) => void;
  readonly reject: (error: Error) => void;
  readonly onDuration: ((ms: number) => void) | undefined;
}

/**
 * Client of one grammar worker, with its pending requests. The worker handles requests one at a time, in order. At most
 * one compilation is sent at a time, so that running answers wait for one compilation and not for all queued ones.
 */
export class GrammarWorkerClient {
  readonly #worker: GrammarWorker;
  readonly #timeouts: WorkerTimeouts;
  readonly #onSlow: () => void;
  /** Sent requests, in the order in which the worker handles them. */
  readonly #calls = new Map<number, PendingCall>();
  /** Compilations that are not sent yet. */
  readonly #heldCompiles = new Map<number, PendingCall>();
  #lastCallId = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the worker started the current request. */
  #startedAt = 0;
  #ended: { readonly reason: string; readonly causedByOther: boolean } | undefined;
  #isSlow = false;
  /** Number of matchers that exist in the worker. */
  activeMatchers = 0;

  /** @param onSlow called once for each request that is slow */
  constructor(
    worker: GrammarWorker,
    vocabulary: GrammarVocabulary,
    timeouts: WorkerTimeouts,
    onSlow: () => void,
  ) {
    this.#worker = worker;
    this.#timeouts = timeouts;
    this.#onSlow = onSlow;
    worker.onReply((reply) => this.#handleReply(reply));
    worker.onEnd((reason) => this.end(reason));
    this.request({ kind: 'vocabulary', vocabulary }).catch(() => {});
  }

  get ended(): boolean {
    return this.#ended !== undefined;
  }

  get isIdle(): boolean {
    return this.#calls.size + this.#heldCompiles.size === 0 && this.activeMatchers === 0;
  }

  /**
   * Sends a request and waits for its reply.
   * @param onDuration receives the time that the worker took for this request, without waiting time
   * @throws GrammarError the grammar is rejected, or takes too long
   * @throws WorkerLostError the worker ended because of another request
   */
  request(
    question: GrammarRequest,
    onDuration?: (ms: number) => void,
  ): Promise<Uint32Array | number | undefined> {
    if (this.#ended !== undefined) return Promise.reject(createLostError(this.#ended));
    const call = ++this.#lastCallId;
    return new Promise((resolve, reject) => {
      const pendingCall = { question, resolve, reject, onDuration };
      if (question.kind === 'compile' && this.#isCompiling) this.#heldCompiles.set(call, pendingCall);
      else this.#send(call, pendingCall);
    });
  }

  get #isCompiling(): boolean {
    return [...this.#calls.values()].some(({ question }) => question.kind === 'compile');
  }

  #send(call: number, pendingCall: PendingCall): void {
    this.#calls.set(call, pendingCall);
    if (this.#calls.size === 1) this.#startTimer();
    this.#worker.post({ call, question: pendingCall.question }, []);
  }

  #sendHeldCompile(): void {
    const [next] = this.#heldCompiles;
    if (!next || this.#isCompiling) return;
    this.#heldCompiles.delete(next[0]);
    this.#send(...next);
  }

  /** Sends a request without waiting for a reply. */
  notify(question: GrammarRequest): void {
    this.request(question).catch(() => {});
  }

  /** Whether the current request is slow. */
  get isSlow(): boolean {
    return this.#isSlow;
  }

  /** Rejects the requests that wait behind the current one with WorkerLostError. */
  rejectWaiting(): void {
    const [, ...others] = this.#calls;
    for (const [call, { question, reject }] of [...others, ...this.#heldCompiles]) {
      if (question.kind === 'forget' || question.kind === 'stop') continue;
      this.#calls.delete(call);
      this.#heldCompiles.delete(call);
      reject(new WorkerLostError('another request is slow', true));
    }
  }

  /** Limits the rest of the current request to `ms`; then it fails with `error`. */
  shortenTimeout(ms: number, error: GrammarError): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end('another request took too long', error), ms);
  }

  /**
   * Terminates the worker.
   * @param currentCallError rejects the current request; the others are rejected with WorkerLostError
   */
  end(reason: string, currentCallError?: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = { reason, causedByOther: currentCallError !== undefined };
    clearTimeout(this.#timer);
    this.#worker.terminate();
    let error = currentCallError;
    for (const { reject } of [...this.#calls.values(), ...this.#heldCompiles.values()]) {
      reject(error ?? createLostError(this.#ended));
      error = undefined;
    }
    this.#calls.clear();
    this.#heldCompiles.clear();
  }

  #handleReply(reply: GrammarReply): void {
    const call = this.#calls.get(reply.call);
    if (!call) {
      // Rejected meanwhile. Restart the timer, so that its time does not count for the next request.
      this.#startTimer();
      this.#sendHeldCompile();
      return;
    }
    const failed = 'failed' in reply ? reply.failed : undefined;
    if (failed?.kind === 'broken') {
      this.end(failed.message, createBrokenError(call.question, failed.message));
      return;
    }
    this.#calls.delete(reply.call);
    call.onDuration?.(performance.now() - this.#startedAt);
    if (failed) call.reject(toError(failed));
    else call.resolve('value' in reply ? reply.value : undefined);
    this.#startTimer();
    this.#sendHeldCompile();
  }

  /** Starts the timeouts of the current request. */
  #startTimer(): void {
    clearTimeout(this.#timer);
    this.#isSlow = false;
    this.#startedAt = performance.now();
    const [current] = this.#calls.values();
    if (!current || this.#ended !== undefined) return;
    if (current.question.kind === 'vocabulary') {
      // A thread may start slowly on a busy machine, which is not the fault of a grammar.
      this.#timer = setTimeout(() => this.end('the grammar worker did not start in time'), startTimeoutMs);
      return;
    }
    const { slowAfterMs, timeoutMs } = this.#timeouts;
    this.#timer = setTimeout(() => {
      this.#timer = setTimeout(
        () => this.end('a grammar took too long', createTimeoutError(timeoutMs)),
        timeoutMs - slowAfterMs,
      );
      this.#isSlow = true;
      this.#onSlow();
    }, slowAfterMs);
  }
}

const createLostError = ({
  reason,
  causedByOther,
}: {
  reason: string;
  causedByOther: boolean;
}): WorkerLostError => new WorkerLostError(reason, causedByOther);

/** @param circumstance additional cause, for the message */
export const createTimeoutError = (timeoutMs: number, circumstance = ''): GrammarError =>
  new GrammarError(
    'grammar_too_complex',
    `the grammar took more than ${timeoutMs / 1000} s${circumstance}; make it smaller, or reduce its repetitions`,
  );

/** The library failed, most likely because it ran out of memory: invalid grammars are rejected before. */
const createBrokenError = (question: GrammarRequest, message: string): Error =>
  question.kind === 'compile' || question.kind === 'start' || question.kind === 'next'
    ? new GrammarError(
        'grammar_too_complex',
        `the grammar matcher failed (${message}); make the grammar smaller, or reduce its repetitions`,
      )
    : new WorkerLostError(message, false);

function toError(failure: Exclude<Failure, { kind: 'broken' }>): Error {
  if (failure.kind === 'token') return new Error(failure.message);
  return new GrammarError(
    failure.code,
    failure.message,
    failure.path === undefined ? {} : { path: failure.path },
  );
}
