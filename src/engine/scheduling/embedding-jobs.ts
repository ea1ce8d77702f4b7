import { joinPair, type TokenPair } from '../ranking/pair-encoder.ts';

/** The token ids of a text, or a pair, whose tokens are joined when it starts. */
export type TextTokens = readonly number[] | TokenPair;

/** An embedding request: its texts and the rows computed so far. */
interface EmbeddingJob {
  readonly inputs: readonly TextTokens[];
  readonly rows: Float32Array[];
  /** Index of the next text that is not started. */
  nextText: number;
  /** Number of texts whose rows are not computed yet. */
  pendingTexts: number;
  isSettled: boolean;
  resolve(rows: Float32Array[]): void;
  reject(reason: unknown): void;
}

/** A text that was taken from the queue. */
export interface StartedText {
  readonly tokens: readonly number[];
  /** Index of the first token of the text's second segment, where it has one. */
  readonly secondSegment: number | undefined;
  /** False when the result is no longer wanted. */
  readonly isWanted: boolean;
  /** Adds the text's row to the result of its request. */
  deliver(row: Float32Array): void;
  /** Rejects the request of the text. */
  fail(reason: unknown): void;
}

/** Queue of embedding requests whose texts start in turn, so that one text does not wait for a thousand. */
export class EmbeddingJobs {
  readonly #jobs: EmbeddingJob[] = [];
  readonly #onReject: (() => void) | undefined;
  #stopped: { readonly reason: unknown } | undefined;

  /** @param onReject called after a request was rejected: some started texts may no longer be wanted */
  constructor(onReject?: () => void) {
    this.#onReject = onReject;
  }

  /** Requests with at least one text started. */
  get running(): number {
    return this.#jobs.filter(({ nextText }) => nextText > 0).length;
  }

  get waiting(): number {
    return this.#jobs.length - this.running;
  }

  get isStopped(): boolean {
    return this.#stopped !== undefined;
  }

  /**
   * Adds a request. Resolves with one row for each text, in order.
   * @param signal rejects the request with the signal's reason
   */
  add(inputs: readonly TextTokens[], signal?: AbortSignal): Promise<Float32Array[]> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#stopped) throw this.#stopped.reason;
      if (inputs.length === 0) {
        resolve([]);
        return;
      }
      const settle = () => {
        job.isSettled = true;
        const at = this.#jobs.indexOf(job);
        if (at >= 0) this.#jobs.splice(at, 1);
        signal?.removeEventListener('abort', abort);
      };
      const job: EmbeddingJob = {
        inputs,
        rows: [],
        nextText: 0,
        pendingTexts: inputs.length,
        isSettled: false,
        resolve(rows) {
          settle();
          resolve(rows);
        },
        reject: (reason) => {
          if (job.isSettled) return;
          settle();
          reject(reason);
          this.#onReject?.();
        },
      };
      const abort = () => job.reject(signal?.reason);
      signal?.addEventListener('abort', abort, { once: true });
      this.#jobs.push(job);
    });
  }

  /** Number of tokens of the next text; undefined when there is none. */
  peekLength(): number | undefined {
    const job = this.#jobs.find(hasUnstartedText);
    return job?.inputs[job.nextText]?.length;
  }

  /** Starts the next text; its request moves to the end of the queue. */
  take(): StartedText | undefined {
    const job = this.#jobs.find(hasUnstartedText);
    if (!job) return undefined;
    const index = job.nextText++;
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    this.#jobs.push(job);
    return {
      ...readTokens(job.inputs[index] as TextTokens),
      get isWanted() {
        return !job.isSettled;
      },
      deliver: (row) => deliver(job, index, row),
      fail: (reason) => job.reject(reason),
    };
  }

  /** Rejects all requests, also later ones. */
  stop(reason: unknown): void {
    this.#stopped = { reason };
    for (const job of this.#jobs.slice()) job.reject(reason);
  }
}

const hasUnstartedText = ({ nextText, inputs }: EmbeddingJob): boolean => nextText < inputs.length;

const readTokens = (input: TextTokens): Pick<StartedText, 'tokens' | 'secondSegment'> =>
  'document' in input
    ? { tokens: joinPair(input), secondSegment: input.before.length }
    : { tokens: input, secondSegment: undefined };

function deliver(job: EmbeddingJob, index: number, row: Float32Array): void {
  if (job.isSettled) return;
  job.rows[index] = row;
  job.pendingTexts -= 1;
  if (job.pendingTexts === 0) job.resolve(job.rows);
}
