/** Conditions that end an answer before the model or a token limit does; used by editors. */
export interface EarlyEnds {
  /**
   * Ends the answer before a line, except the first, with less indentation than this many characters. 0 disables it.
   */
  readonly indent: number;
  /** Ends an answer that has a line break this many ms after its first token. 0 disables it. */
  readonly milliseconds: number;
}

/** Applies the conditions to the text of an answer. */
export class EarlyEnd {
  readonly #indent: number;
  readonly #milliseconds: number;
  readonly #now: () => number;
  /** Text from the last line break on, while the indentation of its line is still undecided. */
  #held = '';
  #hasNewLine = false;
  #first: number | undefined;

  /** @param now in milliseconds */
  constructor({ indent, milliseconds }: EarlyEnds, now: () => number = () => performance.now()) {
    this.#indent = indent;
    this.#milliseconds = milliseconds;
    this.#now = now;
  }

  /** Returns the text that belongs to the answer, and whether the answer ends with it. */
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
      // The held text begins with the line break before its line.
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
        // Empty lines have no indentation.
        if (rest[width] !== '\n') return { text: certain, over: true };
      }
      certain += rest.slice(0, width);
      rest = rest.slice(width);
    }
  }

  /** The answer ended on its own, so the held text belongs to it. */
  end(): string {
    return this.#held;
  }

  #isLate(): boolean {
    if (this.#milliseconds === 0 || !this.#hasNewLine) return false;
    const now = this.#now();
    return now - (this.#first ?? now) > this.#milliseconds;
  }
}
