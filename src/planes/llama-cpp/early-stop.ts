/** Conditions that end an answer before the model or a token limit does; used by editors. */
export interface EarlyStopOptions {
  /**
   * Ends the answer before a line, except the first, with less indentation than this many characters. 0 disables it.
   */
  readonly indent: number;
  /** Ends an answer that has a line break this many ms after its first token. 0 disables it. */
  readonly maxDurationMs: number;
}

/** Applies the conditions to the text of an answer. */
export class EarlyStop {
  readonly #indent: number;
  readonly #maxDurationMs: number;
  readonly #now: () => number;
  /** Text from the last line break on, while the indentation of its line is still undecided. */
  #heldText = '';
  #hasNewLine = false;
  #firstTokenMs: number | undefined;

  /** @param now in milliseconds */
  constructor({ indent, maxDurationMs }: EarlyStopOptions, now: () => number = () => performance.now()) {
    this.#indent = indent;
    this.#maxDurationMs = maxDurationMs;
    this.#now = now;
  }

  /** Returns the text that belongs to the answer, and whether the answer ends with it. */
  push(text: string): { text: string; isFinished: boolean } {
    this.#firstTokenMs ??= this.#now();
    if (this.#indent === 0) {
      this.#hasNewLine ||= text.includes('\n');
      return { text, isFinished: this.#isLate() };
    }
    let accepted = '';
    let rest = this.#heldText + text;
    this.#heldText = '';
    for (;;) {
      // The held text begins with the line break before its line.
      const lineBreakIndex = rest.indexOf('\n');
      if (lineBreakIndex === -1) return { text: accepted + rest, isFinished: this.#isLate() };
      this.#hasNewLine = true;
      accepted += rest.slice(0, lineBreakIndex);
      rest = rest.slice(lineBreakIndex);
      const width = /^\n[ \t]*/.exec(rest)?.[0].length ?? 1;
      if (width - 1 < this.#indent) {
        if (width === rest.length) {
          this.#heldText = rest;
          return { text: accepted, isFinished: this.#isLate() };
        }
        // Empty lines have no indentation.
        if (rest[width] !== '\n') return { text: accepted, isFinished: true };
      }
      accepted += rest.slice(0, width);
      rest = rest.slice(width);
    }
  }

  /** The answer ended on its own, so the held text belongs to it. */
  end(): string {
    return this.#heldText;
  }

  #isLate(): boolean {
    if (this.#maxDurationMs === 0 || !this.#hasNewLine) return false;
    const now = this.#now();
    return now - (this.#firstTokenMs ?? now) > this.#maxDurationMs;
  }
}
