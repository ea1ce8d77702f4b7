import { EmbeddingJobs, type StartedText, type TextTokens } from './embedding-jobs.ts';
import type { Sequence } from './sequence.ts';

/** The part of `Scheduler` that computes sequences. */
interface SequenceRunner {
  add(sequence: Sequence): void;
  cancel(sequence: Sequence, reason: unknown): void;
}

/**
 * Embeds texts with a model that generates: each text is a sequence that ends after its prompt and reports the hidden
 * state of its last token. Texts share slots, pages and steps with requests that generate.
 */
export class SequenceEmbedder {
  readonly #jobs = new EmbeddingJobs(() => this.#cancelUnwanted());
  readonly #running = new Map<Sequence, StartedText>();
  readonly #scheduler: SequenceRunner;
  readonly #createSequence: (tokens: readonly number[]) => Sequence;
  readonly #maxRunning: number;

  /** @param options.slots slots of the scheduler; one is left for requests that generate */
  constructor(
    scheduler: SequenceRunner,
    options: { slots: number; createSequence: (tokens: readonly number[]) => Sequence },
  ) {
    this.#scheduler = scheduler;
    this.#createSequence = options.createSequence;
    this.#maxRunning = Math.max(1, options.slots - 1);
  }

  /** Requests without a started text; the texts of the others run or wait as sequences. */
  get waiting(): number {
    return this.#jobs.waiting;
  }

  /**
   * Computes one row for each text, in order, not normalized.
   * @param inputs each of 1 to `context` tokens
   * @param signal rejects the request with the signal's reason
   */
  embed(inputs: readonly TextTokens[], signal?: AbortSignal): Promise<Float32Array[]> {
    const rows = this.#jobs.add(inputs, signal);
    this.#startTexts();
    return rows;
  }

  /** Rejects all requests and starts no further text. */
  stop(reason: unknown): void {
    this.#jobs.stop(reason);
  }

  #startTexts(): void {
    while (this.#running.size < this.#maxRunning) {
      const text = this.#jobs.take();
      if (!text) return;
      void this.#run(text);
    }
  }

  async #run(text: StartedText): Promise<void> {
    const sequence = this.#createSequence(text.tokens);
    this.#running.set(sequence, text);
    try {
      this.#scheduler.add(sequence);
      for await (const _ of sequence.events());
      text.deliver(sequence.hiddenState as Float32Array);
    } catch (error) {
      text.fail(error);
    } finally {
      this.#running.delete(sequence);
      this.#startTexts();
    }
  }

  #cancelUnwanted(): void {
    for (const [sequence, { isWanted }] of this.#running) {
      if (!isWanted) this.#scheduler.cancel(sequence, new Error('the embedding is no longer wanted'));
    }
  }
}
