/** V8 copies slices of up to 12 characters. A cached longer slice would keep its whole prompt in memory. */
const maxWordLength = 12;
const maxWords = 100_000;

/** Caches the ids of short words. Cleared when full. */
export class WordCache {
  readonly #words = new Map<string, readonly number[]>();

  get(word: string): readonly number[] | undefined {
    return word.length <= maxWordLength ? this.#words.get(word) : undefined;
  }

  /** Stores the ids that a word added to `ids`, starting at index `first`. */
  store(word: string, ids: readonly number[], first: number): void {
    if (word.length > maxWordLength) return;
    if (this.#words.size >= maxWords) this.#words.clear();
    this.#words.set(word, ids.slice(first));
  }
}
