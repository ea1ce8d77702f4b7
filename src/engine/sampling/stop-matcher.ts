/**
 * Finds stop strings in a text stream. Text is held back only while it could be the start of a stop string, so
 * returned text is final. A stop string may span any number of pushes.
 */
export class StopMatcher {
  readonly #stops: readonly string[];
  #heldText = '';
  #stopText: string | undefined;

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== '');
  }

  /** The stop string that was found, if any. */
  get stopText(): string | undefined {
    return this.#stopText;
  }

  get isStopped(): boolean {
    return this.#stopText !== undefined;
  }

  /**
   * Adds text and returns what can be sent now. When a stop string is found, returns the text before it; afterwards
   * nothing.
   */
  push(text: string): string {
    if (this.isStopped) return '';
    const all = this.#heldText + text;
    // The stop string that is complete first wins, not the one that starts first, so the result does not depend on
    // chunk boundaries.
    let match: { stop: string; start: number; end: number } | undefined;
    for (const stop of this.#stops) {
      const start = all.indexOf(stop);
      const end = start + stop.length;
      if (start < 0 || (match && (end > match.end || (end === match.end && start >= match.start)))) continue;
      match = { stop, start, end };
    }
    if (match) {
      this.#stopText = match.stop;
      this.#heldText = '';
      return all.slice(0, match.start);
    }
    const heldLength = this.#partialMatchLength(all);
    this.#heldText = all.slice(all.length - heldLength);
    return all.slice(0, all.length - heldLength);
  }

  /** Returns the held text when the stream ends without a stop string. */
  flush(): string {
    const rest = this.isStopped ? '' : this.#heldText;
    this.#heldText = '';
    return rest;
  }

  /** Length of the longest suffix of `all` that is a proper prefix of a stop string. */
  #partialMatchLength(all: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, all.length); length > longest; length--) {
        if (all.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
