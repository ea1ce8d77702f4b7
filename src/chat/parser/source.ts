/** A parser step over streamed text: a generator that yields when it needs more text. */
export type Reading<T> = Generator<void, T, void>;

const isSpace = (char: string) => char === ' ' || char === '\n' || char === '\t' || char === '\r';

/** The text of an answer received so far. Results do not depend on how the text was divided into chunks. */
export class Source {
  #text = '';
  #at = 0;
  #ended = false;
  /** Start of the text that becomes content if it turns out not to be a call. */
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

  /** Keeps the text that is read from here on, until `release`. */
  hold(): void {
    this.#heldFrom = this.#at;
  }

  release(): void {
    this.#heldFrom = undefined;
  }

  held(): string {
    return this.#heldFrom === undefined ? '' : this.#text.slice(this.#heldFrom, this.#at);
  }

  /** The text that was received but not read. */
  get rest(): string {
    return this.#text.slice(this.#at);
  }

  skip(count: number): void {
    this.#at += count;
  }

  /** Returns the next character without reading it; empty at the end. */
  *peek(): Reading<string> {
    while (this.#at >= this.#text.length && !this.#ended) yield;
    return this.#text.charAt(this.#at);
  }

  /** Returns the longest of the texts that comes next, without reading it; undefined when none does. */
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

  /** Reads the longest of the texts that comes next, and returns whether there was one. */
  *accept(...texts: readonly string[]): Reading<boolean> {
    const found = yield* this.upcoming(texts);
    if (found !== undefined) this.skip(found.length);
    return found !== undefined;
  }

  *space(): Reading<void> {
    while (isSpace(yield* this.peek())) this.skip(1);
  }

  /**
   * Reads up to the next marker and emits the text as soon as it cannot be part of a marker. Does not read the marker.
   * @returns the marker; undefined when the text ended without one
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

  /** Reads characters that match `pattern`, up to a maximum number. */
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

/** Number of characters at the end that may be the start of a marker. */
function openEnd(markers: readonly string[], text: string): number {
  let most = 0;
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, text.length); length > most; length--) {
      if (text.endsWith(marker.slice(0, length))) most = length;
    }
  }
  return most;
}
