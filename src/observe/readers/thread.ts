import { Worker } from 'node:worker_threads';
import { raceTimeout } from '../../util/race-timeout.ts';
import { unreadable } from './failures.ts';
import type { Question, Reply, ThreadData } from './messages.ts';
import { plainReason } from '../../words/plain-reason.ts';

/** How long a thread may take to be there, in ms. */
const startPatience = 20_000;
/** In MiB: an answer a few times. SQLite's own memory is not in it. */
const mostMemory = 256;

/** A thread that reads, one question at a time. */
export class ReadingThread {
  readonly #worker: Worker;
  readonly #ready: Promise<void>;
  #hear: (reply: Reply | Error) => void = () => undefined;
  /** It has come to its end, or will. */
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
    // A thread that waits must not keep the process.
    worker.unref();
    let isReady: () => void = () => undefined;
    this.#ready = new Promise((resolve, reject) => {
      isReady = resolve;
      worker.on('error', reject).on('exit', () => reject(unreadable('the thread that reads ended early')));
    });
    this.#ready.catch(() => undefined);
    worker.on('message', (reply: Reply) => {
      if ('ready' in reply) isReady();
      else this.#hear(reply);
    });
    worker.on('error', (error: Error) => this.#fail(error));
    this.gone = new Promise((resolve) => {
      worker.on('exit', () => {
        this.#fail(new Error('it ended'));
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
   * What it answers, or `late`; it is then to be given up. Its start does not count.
   * @throws ObserveError unavailable, where the thread broke down
   */
  async ask(question: Question, deadlineMs: number): Promise<Exclude<Reply, { ready: true }> | 'late'> {
    this.#worker.ref();
    try {
      if ((await raceTimeout(this.#ready, startPatience)) === 'late') throw new Error('it does not start');
      const reply = new Promise<Reply | Error>((resolve) => {
        this.#hear = resolve;
        if (this.#ended) resolve(this.#ended);
        else this.#worker.postMessage(question, []);
      });
      const answered = await raceTimeout(reply, deadlineMs);
      if (answered === 'late') return answered;
      if (answered instanceof Error) throw answered;
      if ('ready' in answered) throw new Error('it started twice');
      return answered;
    } catch (error) {
      this.#ended ??= error as Error;
      throw unreadable(
        `the thread that reads the database broke down (${plainReason(error)}): ask again, for less at once`,
        error,
      );
    } finally {
      this.#worker.unref();
    }
  }

  /** Resolves when it is gone, which a statement under way puts off. */
  end(): Promise<void> {
    this.#ended ??= new Error('it was ended');
    void this.#worker.terminate();
    return this.gone;
  }
}
