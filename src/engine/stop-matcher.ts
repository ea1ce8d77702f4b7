/**
 * Finds stop texts in a stream. Text is held back only while it could still be the start of one, so what comes
 * out is certain; a stop text may begin and end anywhere, across any number of pushes.
 */
export class StopMatcher {
  readonly #stops: readonly string[];
  #held = '';
  #stopped = false;

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== '');
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** The text that became certain. After a stop text was found, everything before it, and nothing from then on. */
  push(text: string): string {
    if (this.#stopped) return '';
    const all = this.#held + text;
    let first = -1;
    for (const stop of this.#stops) {
      const at = all.indexOf(stop);
      if (at >= 0 && (first < 0 || at < first)) first = at;
    }
    if (first >= 0) {
      this.#stopped = true;
      this.#held = '';
      return all.slice(0, first);
    }
    const keep = this.#partial(all);
    this.#held = all.slice(all.length - keep);
    return all.slice(0, all.length - keep);
  }

  /** What was held back, when the stream ends without a stop text. */
  flush(): string {
    const rest = this.#stopped ? '' : this.#held;
    this.#held = '';
    return rest;
  }

  /** Length of the longest end of `all` that starts some stop text. */
  #partial(all: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, all.length); length > longest; length--) {
        if (all.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
