/** The result of one operation of a commit. */
export type Outcome<R> = { readonly value: R } | { readonly error: unknown };

interface Waiting<O, R> {
  readonly operation: O;
  readonly weight: number;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

export interface BatcherOptions<O, R> {
  /** Commits all operations or none, in order. Rejects when none was committed. */
  readonly commit: (operations: readonly O[]) => Promise<readonly Outcome<R>[]>;
  /** Operations in one commit. */
  readonly mostOperations: number;
  /** Weight of one commit, in characters. A heavier operation is committed alone. */
  readonly mostWeight: number;
  readonly weigh: (operation: O) => number;
  /** Whether no other operation is expected now. */
  readonly isAlone: () => boolean;
}

/** Group commit: operations that arrive while a commit is under way share the next one. */
export class Batcher<O, R> {
  readonly #options: BatcherOptions<O, R>;
  #waiting: Waiting<O, R>[] = [];
  #running: Promise<void> | undefined;

  constructor(options: BatcherOptions<O, R>) {
    this.#options = options;
  }

  do(operation: O): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ operation, weight: this.#options.weigh(operation), resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Resolves when no operation is queued or running. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      // Operations of other connections that arrive now join this commit, and streams can be served between commits.
      if (!this.#options.isAlone()) await new Promise((resolve) => setImmediate(resolve));
      await this.#commit(this.#next());
    }
    this.#running = undefined;
  }

  #next(): Waiting<O, R>[] {
    const { mostOperations, mostWeight } = this.#options;
    let weight = 0;
    let count = 0;
    for (const one of this.#waiting) {
      weight += one.weight;
      if (count === mostOperations || (count > 0 && weight > mostWeight)) break;
      count += 1;
    }
    const next = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    return next;
  }

  async #commit(batch: readonly Waiting<O, R>[]): Promise<void> {
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
