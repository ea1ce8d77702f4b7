/**
 * V8 copies slices of up to 12 characters; a longer slice kept here would keep its whole prompt alive.
 */
const longestWord = 12;
const mostWords = 100_000;

/** The ids of short words met before. Forgets everything when full. */
export class WordCache {
  readonly #words = new Map<string, readonly number[]>();

  get(word: string): readonly number[] | undefined {
    return word.length <= longestWord ? this.#words.get(word) : undefined;
  }

  /** Remembers what a word added to `ids`, from `first` on. */
  keep(word: string, ids: readonly number[], first: number): void {
    if (word.length > longestWord) return;
    if (this.#words.size >= mostWords) this.#words.clear();
    this.#words.set(word, ids.slice(first));
  }
}
