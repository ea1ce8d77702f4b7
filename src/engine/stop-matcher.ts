/**
 * Finds stop strings in a text stream. Text is held back only while it could be the start of a stop string, so
 * returned text is final. A stop string may span any number of pushes.
 */
export class StopMatcher {
  readonly #stops: readonly string[];
  #held = '';
  #found: string | undefined;

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== '');
  }

  /** The stop string that was found, if any. */
  get found(): string | undefined {
    return this.#found;
  }

  get stopped(): boolean {
    return this.#found !== undefined;
  }

  /**
   * Adds text and returns what can be sent now. When a stop string is found, returns the text before it; afterwards
   * nothing.
   */
  push(text: string): string {
    if (this.stopped) return '';
    const all = this.#held + text;
    // The stop string that is complete first wins, not the one that starts first, so the result does not depend on
    // chunk boundaries.
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

  /** Returns the held text when the stream ends without a stop string. */
  flush(): string {
    const rest = this.stopped ? '' : this.#held;
    this.#held = '';
    return rest;
  }

  /** Length of the longest suffix of `all` that is a proper prefix of a stop string. */
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
