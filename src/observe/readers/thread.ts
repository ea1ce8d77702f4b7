import { Worker } from 'node:worker_threads';
import { raceTimeout } from '../../util/race-timeout.ts';
import { unreadable } from './failures.ts';
import type { Question, Reply, ThreadData } from './messages.ts';
import { plainReason } from '../../words/plain-reason.ts';

/** Time limit for the start of a thread. */
const startPatience = 20_000;
/** Heap limit in MiB, several times the size of a result. It does not include SQLite's own memory. */
const mostMemory = 256;

/** Client of a reader thread, which serves one request at a time. */
export class ReadingThread {
  readonly #worker: Worker;
  readonly #ready: Promise<void>;
  #hear: (reply: Reply | Error) => void = () => undefined;
  /** Why the thread ended or is being terminated. */
  #ended: Error | undefined;
  readonly gone: Promise<void>;

  /** @param entry path of `observe-worker` */
  constructor(entry: string, data: ThreadData) {
    const worker = new Worker(entry, {
      workerData: data,
      execArgv: ['--disable-warning=ExperimentalWarning'],
      resourceLimits: { maxOldGenerationSizeMb: mostMemory },
    });
    this.#worker = worker;
    // An idle thread must not keep the process alive.
    worker.unref();
    let isReady: () => void = () => undefined;
    this.#ready = new Promise((resolve, reject) => {
      isReady = resolve;
      worker.on('error', reject).on('exit', () => reject(unreadable('the reader thread ended early')));
    });
    this.#ready.catch(() => undefined);
    worker.on('message', (reply: Reply) => {
      if ('ready' in reply) isReady();
      else this.#hear(reply);
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
    return this.#ended === undefined;
  }

  #fail(error: Error): void {
    this.#ended ??= error;
    this.#hear(this.#ended);
  }

  /**
   * Sends a request. @returns the response, or `late`; the thread must then be abandoned. Its start time does not
   * count.
   * @throws ObserveError unavailable, if the thread failed
   */
  async ask(question: Question, deadlineMs: number): Promise<Exclude<Reply, { ready: true }> | 'late'> {
    this.#worker.ref();
    try {
      if ((await raceTimeout(this.#ready, startPatience)) === 'late')
        throw new Error('the thread does not start');
      const reply = new Promise<Reply | Error>((resolve) => {
        this.#hear = resolve;
        if (this.#ended) resolve(this.#ended);
        else this.#worker.postMessage(question, []);
      });
      const answered = await raceTimeout(reply, deadlineMs);
      if (answered === 'late') return answered;
      if (answered instanceof Error) throw answered;
      if ('ready' in answered) throw new Error('the thread started twice');
      return answered;
    } catch (error) {
      this.#ended ??= error as Error;
      throw unreadable(
        `the thread that reads the database failed (${plainReason(error)}); try again with a smaller query`,
        error,
      );
    } finally {
      this.#worker.unref();
    }
  }

  /** Terminates the thread. Resolves when it is gone, which a running statement delays. */
  end(): Promise<void> {
    this.#ended ??= new Error('the thread was terminated');
    void this.#worker.terminate();
    return this.gone;
  }
}
