import { Worker } from 'node:worker_threads';
import { StoreError } from '../../store/index.ts';
import { RecorderError } from '../errors.ts';
import type { Answers, Call, KeeperData, Question, Reply } from './protocol.ts';
import { plainReason } from '../../words/plain-reason.ts';

interface Waiting {
  resolve(answer: Answers[Question['do']]): void;
  reject(error: Error): void;
}

/** Requests that a new thread gets first. */
type Greet = () => readonly Extract<Question, { do: 'settings' }>[];

/** Client of the writer thread. The thread is started on demand, and again after it ended. */
export class HistoryThread {
  readonly #path: string;
  readonly #data: KeeperData;
  readonly #greet: Greet;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #calls = 0;

  constructor(path: string, data: KeeperData, greet: Greet) {
    this.#path = path;
    this.#data = data;
    this.#greet = greet;
  }

  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  /** Sends a request; requests are processed in order. Rejects with StoreError, RecorderError or, for a bug, Error. */
  ask<Q extends Question>(question: Q): Promise<Answers[Q['do']]> {
    const worker = this.#worker ?? this.#start();
    return this.#post(worker, question);
  }

  /** Closes the thread after all earlier requests. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    await this.#post(worker, { do: 'close' }).catch(() => undefined);
    await worker.terminate();
  }

  #post<Q extends Question>(worker: Worker, question: Q): Promise<Answers[Q['do']]> {
    return new Promise((resolve, reject) => {
      const call = ++this.#calls;
      // postMessage throws for data that cannot be cloned; then nothing is pending.
      const message: Call = { call, question };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      worker.postMessage(message);
      this.#waiting.set(call, { resolve: resolve as Waiting['resolve'], reject });
      if (this.#waiting.size === 1) worker.ref();
    });
  }

  #start(): Worker {
    const worker = new Worker(this.#path, {
      workerData: this.#data,
      stdout: true,
      stderr: true,
      execArgv: ['--disable-warning=ExperimentalWarning'],
    });
    this.#worker = worker;
    worker.stdout.resume();
    worker.stderr.resume();
    worker.on('message', (reply: Reply) => {
      const waiting = this.#waiting.get(reply.call);
      this.#waiting.delete(reply.call);
      // The thread keeps the process alive only while requests are pending.
      if (this.#waiting.size === 0) worker.unref();
      if ('answer' in reply) waiting?.resolve(reply.answer);
      else waiting?.reject(errorOf(reply.failure));
    });
    let reason = 'it was terminated';
    worker.on('error', (error: Error) => {
      reason = plainReason(error);
    });
    worker.on('exit', () => {
      this.#worker = undefined;
      const lost = [...this.#waiting.values()];
      this.#waiting.clear();
      for (const waiting of lost)
        waiting.reject(new StoreError('storage_unsure', `the recorder's thread ended: ${reason}`));
    });
    for (const question of this.#greet()) this.#post(worker, question).catch(() => undefined);
    return worker;
  }
}

function errorOf({ code, message }: Extract<Reply, { failure: unknown }>['failure']): Error {
  if (code === 'recorder_failed') return new Error(message);
  // Not retryable: the same events would take as long again.
  if (code === 'redaction_too_slow')
    return new RecorderError('conflict', code, `The events were not stored: ${message}.`);
  return new StoreError(code, message);
}
