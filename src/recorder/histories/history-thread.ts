import { Worker } from 'node:worker_threads';
import { StoreError } from '../../store/index.ts';
import { RecorderError } from '../errors.ts';
import type {
  WriterResponses,
  WriterCall,
  HistoryWriterData,
  WriterRequest,
  WriterReply,
} from './protocol.ts';
import { safeErrorReason } from '../../words/plain-reason.ts';

interface PendingCall {
  resolve(answer: WriterResponses[WriterRequest['do']]): void;
  reject(error: Error): void;
}

/** Requests that a new thread gets first. */
type InitialRequests = () => readonly Extract<WriterRequest, { do: 'settings' }>[];

/** Client of the writer thread. The thread is started on demand, and again after it ended. */
export class HistoryThread {
  readonly #path: string;
  readonly #data: HistoryWriterData;
  readonly #initialRequests: InitialRequests;
  readonly #pending = new Map<number, PendingCall>();
  #worker: Worker | undefined;
  #calls = 0;

  constructor(path: string, data: HistoryWriterData, initialRequests: InitialRequests) {
    this.#path = path;
    this.#data = data;
    this.#initialRequests = initialRequests;
  }

  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  /** Sends a request; requests are processed in order. Rejects with StoreError, RecorderError or, for a bug, Error. */
  request<Q extends WriterRequest>(question: Q): Promise<WriterResponses[Q['do']]> {
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

  #post<Q extends WriterRequest>(worker: Worker, question: Q): Promise<WriterResponses[Q['do']]> {
    return new Promise((resolve, reject) => {
      const call = ++this.#calls;
      // postMessage throws for data that cannot be cloned; then nothing is pending.
      const message: WriterCall = { call, question };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      worker.postMessage(message);
      this.#pending.set(call, { resolve: resolve as PendingCall['resolve'], reject });
      if (this.#pending.size === 1) worker.ref();
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
    worker.on('message', (reply: WriterReply) => {
      const pending = this.#pending.get(reply.call);
      this.#pending.delete(reply.call);
      // The thread keeps the process alive only while requests are pending.
      if (this.#pending.size === 0) worker.unref();
      if ('answer' in reply) pending?.resolve(reply.answer);
      else pending?.reject(toError(reply.failure));
    });
    let reason = 'it was terminated';
    worker.on('error', (error: Error) => {
      reason = safeErrorReason(error);
    });
    worker.on('exit', () => {
      this.#worker = undefined;
      const lost = [...this.#pending.values()];
      this.#pending.clear();
      for (const pending of lost)
        pending.reject(new StoreError('storage_unsure', `the recorder's thread ended: ${reason}`));
    });
    for (const question of this.#initialRequests()) this.#post(worker, question).catch(() => undefined);
    return worker;
  }
}

function toError({ code, message }: Extract<WriterReply, { failure: unknown }>['failure']): Error {
  if (code === 'recorder_failed') return new Error(message);
  // Not retryable: the same events would take as long again.
  if (code === 'redaction_too_slow')
    return new RecorderError('conflict', code, `The events were not stored: ${message}.`);
  return new StoreError(code, message);
}
