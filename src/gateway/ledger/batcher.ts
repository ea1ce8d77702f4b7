/** The result of one operation of a commit; a promise where the operation also waits for something after the commit. */
export type OperationOutcome<R> = { readonly value: R | Promise<R> } | { readonly error: unknown };

interface QueuedOperation<O, R> {
  readonly operation: O;
  readonly weight: number;
  readonly resolve: (result: R | Promise<R>) => void;
  readonly reject: (error: unknown) => void;
}

export interface BatcherOptions<O, R> {
  /** Commits all operations or none, in order. Rejects when none was committed. */
  readonly commit: (operations: readonly O[]) => Promise<readonly OperationOutcome<R>[]>;
  /** Operations in one commit. */
  readonly maxOperations: number;
  /** Weight of one commit, in characters. A heavier operation is committed alone. */
  readonly maxWeight: number;
  readonly weigh: (operation: O) => number;
  /** Whether no other operation is expected now. */
  readonly hasSingleCaller: () => boolean;
}

/** Group commit: operations that arrive while a commit is under way share the next one. */
export class Batcher<O, R> {
  readonly #options: BatcherOptions<O, R>;
  #queue: QueuedOperation<O, R>[] = [];
  #running: Promise<void> | undefined;

  constructor(options: BatcherOptions<O, R>) {
    this.#options = options;
  }

  submit(operation: O): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ operation, weight: this.#options.weigh(operation), resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Operations that wait for a commit. */
  get queued(): number {
    return this.#queue.length;
  }

  /** Resolves when no operation is queued or running. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      // Operations of other connections that arrive now join this commit, and streams can be served between commits.
      if (!this.#options.hasSingleCaller()) await new Promise((resolve) => setImmediate(resolve));
      await this.#commit(this.#next());
    }
    this.#running = undefined;
  }

  #next(): QueuedOperation<O, R>[] {
    const { maxOperations, maxWeight } = this.#options;
    let weight = 0;
    let count = 0;
    for (const queued of this.#queue) {
      weight += queued.weight;
      if (count === maxOperations || (count > 0 && weight > maxWeight)) break;
      count += 1;
    }
    const next = this.#queue.slice(0, count);
    this.#queue = this.#queue.slice(count);
    return next;
  }

  async #commit(batch: readonly QueuedOperation<O, R>[]): Promise<void> {
    try {
      const outcomes = await this.#options.commit(batch.map(({ operation }) => operation));
      for (const [index, { resolve, reject }] of batch.entries()) {
        const outcome = outcomes[index];
        if (outcome && 'value' in outcome) resolve(outcome.value);
        else reject(outcome?.error);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
