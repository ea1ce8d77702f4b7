/**
 * Finds stop texts in a stream. Text is held back only while it could still be the start of one, so what comes
 * out is certain; a stop text may begin and end anywhere, across any number of pushes.
 */
export class StopMatcher {
  readonly #stops: readonly string[];
  #held = '';
  #found: string | undefined;

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== '');
  }

  /** The stop text that was found. */
  get found(): string | undefined {
    return this.#found;
  }

  get stopped(): boolean {
    return this.#found !== undefined;
  }

  /** The text that became certain. After a stop text was found, everything before it, and nothing from then on. */
  push(text: string): string {
    if (this.stopped) return '';
    const all = this.#held + text;
    // The one that is complete first, not the one that begins first: so it does not matter how the text was cut.
    let found: { stop: string; start: number; end: number } | undefined;
    for (const stop of this.#stops) {
      const start = all.indexOf(stop);
      const end = start + stop.length;
      if (start < 0 || (found && (end > found.end || (end === found.end && start >= found.start)))) continue;
      found = { stop, start, end };
    }
    if (found) {
      this.#found = found.stop;
      this.#held = '';
      return all.slice(0, found.start);
    }
    const keep = this.#partial(all);
    this.#held = all.slice(all.length - keep);
    return all.slice(0, all.length - keep);
  }

  /** What was held back, when the stream ends without a stop text. */
  flush(): string {
    const rest = this.stopped ? '' : this.#held;
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
