/** When an answer ends before the model or a limit of tokens ends it: editors ask for that. */
export interface EarlyEnds {
  /** End before a line, the first one apart, that is indented by fewer characters. 0: off. */
  readonly indent: number;
  /** End an answer with a line break so long after its first token. 0: off. */
  readonly milliseconds: number;
}

/** Follows an answer's text and says how much of it counts. */
export class EarlyEnd {
  readonly #indent: number;
  readonly #milliseconds: number;
  readonly #now: () => number;
  /** From the last line break on, as long as its line may still turn out to be indented too little. */
  #held = '';
  #hasNewLine = false;
  #first: number | undefined;

  /** @param now in milliseconds */
  constructor({ indent, milliseconds }: EarlyEnds, now: () => number = () => performance.now()) {
    this.#indent = indent;
    this.#milliseconds = milliseconds;
    this.#now = now;
  }

  /** The text that is certain to count, and whether the answer ends with it. */
  push(text: string): { text: string; over: boolean } {
    this.#first ??= this.#now();
    if (this.#indent === 0) {
      this.#hasNewLine ||= text.includes('\n');
      return { text, over: this.#isLate() };
    }
    let certain = '';
    let rest = this.#held + text;
    this.#held = '';
    for (;;) {
      // What is held begins with the line break before its line.
      const at = rest.indexOf('\n');
      if (at === -1) return { text: certain + rest, over: this.#isLate() };
      this.#hasNewLine = true;
      certain += rest.slice(0, at);
      rest = rest.slice(at);
      const width = /^\n[ \t]*/.exec(rest)?.[0].length ?? 1;
      if (width - 1 < this.#indent) {
        if (width === rest.length) {
          this.#held = rest;
          return { text: certain, over: this.#isLate() };
        }
        // An empty line has no indentation to be judged by.
        if (rest[width] !== '\n') return { text: certain, over: true };
      }
      certain += rest.slice(0, width);
      rest = rest.slice(width);
    }
  }

  /** The answer ended by itself: what was held counts. */
  end(): string {
    return this.#held;
  }

  #isLate(): boolean {
    if (this.#milliseconds === 0 || !this.#hasNewLine) return false;
    const now = this.#now();
    return now - (this.#first ?? now) > this.#milliseconds;
  }
}
