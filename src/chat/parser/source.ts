/** What reads a text that is still coming: it stops where it needs more to decide. */
export type Reading<T> = Generator<void, T, void>;

const isSpace = (char: string) => char === ' ' || char === '\n' || char === '\t' || char === '\r';

/** The text of an answer as far as it came. What is decided is the same however the text was cut into pieces. */
export class Source {
  #text = '';
  #at = 0;
  #ended = false;
  /** Where text begins that is given back when it turns out to be no call. */
  #heldFrom: number | undefined;

  feed(text: string): void {
    const from = Math.min(this.#heldFrom ?? this.#at, this.#at);
    this.#text = this.#text.slice(from) + text;
    this.#at -= from;
    if (this.#heldFrom !== undefined) this.#heldFrom -= from;
  }

  end(): void {
    this.#ended = true;
  }

  /** Keeps what is read from here on. */
  hold(): void {
    this.#heldFrom = this.#at;
  }

  release(): void {
    this.#heldFrom = undefined;
  }

  held(): string {
    return this.#heldFrom === undefined ? '' : this.#text.slice(this.#heldFrom, this.#at);
  }

  /** What came and was not read. */
  get rest(): string {
    return this.#text.slice(this.#at);
  }

  skip(count: number): void {
    this.#at += count;
  }

  /** The next character; empty at the end. */
  *peek(): Reading<string> {
    while (this.#at >= this.#text.length && !this.#ended) yield;
    return this.#text.charAt(this.#at);
  }

  /** The one of some texts that comes next, the longest; undefined: none of them. Nothing is read. */
  *upcoming(texts: readonly string[]): Reading<string | undefined> {
    for (;;) {
      const { rest } = this;
      const possible = texts.some((text) => text.length > rest.length && text.startsWith(rest));
      if (possible && !this.#ended) {
        yield;
        continue;
      }
      const found = texts.filter((text) => rest.startsWith(text));
      return found.reduce<string | undefined>(
        (most, text) => (text.length > (most?.length ?? -1) ? text : most),
        undefined,
      );
    }
  }

  /** Reads one of some texts where it comes next. */
  *accept(...texts: readonly string[]): Reading<boolean> {
    const found = yield* this.upcoming(texts);
    if (found !== undefined) this.skip(found.length);
    return found !== undefined;
  }

  *space(): Reading<void> {
    while (isSpace(yield* this.peek())) this.skip(1);
  }

  /**
   * Reads up to the next of some markers, which itself is not read, and passes the text on as soon as it is certain.
   * @returns the marker; undefined: the text ended without one
   */
  *until(markers: readonly string[], emit: (text: string) => void): Reading<string | undefined> {
    for (;;) {
      const { rest } = this;
      const found = firstOf(markers, rest);
      const certain = found ? found.index : this.#ended ? rest.length : rest.length - openEnd(markers, rest);
      if (certain > 0) {
        emit(rest.slice(0, certain));
        this.skip(certain);
      }
      if (found) return found.marker;
      if (this.#ended) return undefined;
      yield;
    }
  }

  /** Reads characters that fit, up to a number of them. */
  *whileMatching(pattern: RegExp, most: number): Reading<string> {
    let text = '';
    for (;;) {
      const char = yield* this.peek();
      if (char === '' || text.length >= most || !pattern.test(char)) return text;
      text += char;
      this.skip(1);
    }
  }
}

function firstOf(markers: readonly string[], text: string): { index: number; marker: string } | undefined {
  let first: { index: number; marker: string } | undefined;
  for (const marker of markers) {
    const index = text.indexOf(marker);
    if (index !== -1 && (!first || index < first.index)) first = { index, marker };
  }
  return first;
}

/** How many characters at the end may be the beginning of a marker. */
function openEnd(markers: readonly string[], text: string): number {
  let most = 0;
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, text.length); length > most; length--) {
      if (text.endsWith(marker.slice(0, length))) most = length;
    }
  }
  return most;
}
