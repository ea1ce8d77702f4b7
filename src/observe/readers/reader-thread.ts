import { Worker } from 'node:worker_threads';
import { raceTimeout } from '../../util/race-timeout.ts';
import { unavailable } from './errors.ts';
import type { ReadRequest, ReadResponse, ReaderThreadData } from './messages.ts';
import { safeErrorReason } from '../../words/plain-reason.ts';

/** Time limit for the start of a thread. */
const startTimeoutMs = 20_000;
/** Heap limit in MiB, several times the size of a result. It does not include SQLite's own memory. */
const maxHeapMiB = 256;

/** Client of a reader thread, which serves one request at a time. */
export class ReaderThread {
  readonly #worker: Worker;
  readonly #ready: Promise<void>;
  #onReply: (reply: ReadResponse | Error) => void = () => undefined;
  /** Why the thread ended or is being terminated. */
  #endReason: Error | undefined;
  readonly gone: Promise<void>;

  /** @param entry path of `observe-worker` */
  constructor(entry: string, data: ReaderThreadData) {
    const worker = new Worker(entry, {
      workerData: data,
      execArgv: ['--disable-warning=ExperimentalWarning'],
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMiB },
    });
    this.#worker = worker;
    // An idle thread must not keep the process alive.
    worker.unref();
    let isReady: () => void = () => undefined;
    this.#ready = new Promise((resolve, reject) => {
      isReady = resolve;
      worker.on('error', reject).on('exit', () => reject(unavailable('the reader thread ended early')));
    });
    this.#ready.catch(() => undefined);
    worker.on('message', (reply: ReadResponse) => {
      if ('ready' in reply) isReady();
      else this.#onReply(reply);
    });
    worker.on('error', (error: Error) => this.#fail(error));
    this.gone = new Promise((resolve) => {
      worker.on('exit', () => {
        this.#fail(new Error('the thread ended'));
        resolve();
      });
    });
  }

  get isUsable(): boolean {
    return this.#endReason === undefined;
  }

  #fail(error: Error): void {
    this.#endReason ??= error;
    this.#onReply(this.#endReason);
  }

  /**
   * Sends a request. @returns the response, or `late`; the thread must then be abandoned. Its start time does not
   * count.
   * @throws ObserveError unavailable, if the thread failed
   */
  async request(
    question: ReadRequest,
    deadlineMs: number,
  ): Promise<Exclude<ReadResponse, { ready: true }> | 'late'> {
    this.#worker.ref();
    try {
      if ((await raceTimeout(this.#ready, startTimeoutMs)) === 'late')
        throw new Error('the thread does not start');
      const reply = new Promise<ReadResponse | Error>((resolve) => {
        this.#onReply = resolve;
        if (this.#endReason) resolve(this.#endReason);
        else this.#worker.postMessage(question, []);
      });
      const response = await raceTimeout(reply, deadlineMs);
      if (response === 'late') return response;
      if (response instanceof Error) throw response;
      if ('ready' in response) throw new Error('the thread started twice');
      return response;
    } catch (error) {
      this.#endReason ??= error as Error;
      throw unavailable(
        `the thread that reads the database failed (${safeErrorReason(error)}); try again with a smaller query`,
        error,
      );
    } finally {
      this.#worker.unref();
    }
  }

  /** Terminates the thread. Resolves when it is gone, which a running statement delays. */
  terminate(): Promise<void> {
    this.#endReason ??= new Error('the thread was terminated');
    void this.#worker.terminate();
    return this.gone;
  }
}
