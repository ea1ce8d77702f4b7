/** V8 copies slices of up to 12 characters. A cached longer slice would keep its whole prompt in memory. */
const longestWord = 12;
const mostWords = 100_000;

/** Caches the ids of short words. Cleared when full. */
export class WordCache {
  readonly #words = new Map<string, readonly number[]>();

  get(word: string): readonly number[] | undefined {
    return word.length <= longestWord ? this.#words.get(word) : undefined;
  }

  /** Stores the ids that a word added to `ids`, starting at index `first`. */
  keep(word: string, ids: readonly number[], first: number): void {
    if (word.length > longestWord) return;
    if (this.#words.size >= mostWords) this.#words.clear();
    this.#words.set(word, ids.slice(first));
  }
}
