/** A parser step over streamed text: a generator that yields when it needs more text. */
export type IncrementalParse<T> = Generator<void, T, void>;

const isSpace = (char: string) => char === ' ' || char === '\n' || char === '\t' || char === '\r';

/** The text of an answer received so far. Results do not depend on how the text was divided into chunks. */
export class TextStream {
  #text = '';
  #at = 0;
  #isEnded = false;
  /** Start of the text that becomes content if it turns out not to be a call. */
  #heldFrom: number | undefined;

  append(text: string): void {
    const from = Math.min(this.#heldFrom ?? this.#at, this.#at);
    this.#text = this.#text.slice(from) + text;
    this.#at -= from;
    if (this.#heldFrom !== undefined) this.#heldFrom -= from;
  }

  end(): void {
    this.#isEnded = true;
  }

  /** Keeps the text that is read from here on, until `release`. */
  hold(): void {
    this.#heldFrom = this.#at;
  }

  release(): void {
    this.#heldFrom = undefined;
  }

  heldText(): string {
    return this.#heldFrom === undefined ? '' : this.#text.slice(this.#heldFrom, this.#at);
  }

  /** The text that was received but not read. */
  get unread(): string {
    return this.#text.slice(this.#at);
  }

  skip(count: number): void {
    this.#at += count;
  }

  /** Returns the next character without reading it; empty at the end. */
  *peek(): IncrementalParse<string> {
    while (this.#at >= this.#text.length && !this.#isEnded) yield;
    return this.#text.charAt(this.#at);
  }

  /** Returns the longest of the texts that comes next, without reading it; undefined when none does. */
  *peekAny(texts: readonly string[]): IncrementalParse<string | undefined> {
    for (;;) {
      const { unread } = this;
      const isUndecided = texts.some((text) => text.length > unread.length && text.startsWith(unread));
      if (isUndecided && !this.#isEnded) {
        yield;
        continue;
      }
      const found = texts.filter((text) => unread.startsWith(text));
      return found.reduce<string | undefined>(
        (most, text) => (text.length > (most?.length ?? -1) ? text : most),
        undefined,
      );
    }
  }

  /** Reads the longest of the texts that comes next, and returns whether there was one. */
  *accept(...texts: readonly string[]): IncrementalParse<boolean> {
    const found = yield* this.peekAny(texts);
    if (found !== undefined) this.skip(found.length);
    return found !== undefined;
  }

  *skipSpace(): IncrementalParse<void> {
    while (isSpace(yield* this.peek())) this.skip(1);
  }

  /**
   * Reads up to the next marker and emits the text as soon as it cannot be part of a marker. Does not read the marker.
   * @returns the marker; undefined when the text ended without one
   */
  *readUntil(markers: readonly string[], emit: (text: string) => void): IncrementalParse<string | undefined> {
    for (;;) {
      const { unread } = this;
      const found = findFirst(markers, unread);
      const certainLength = found
        ? found.index
        : this.#isEnded
          ? unread.length
          : unread.length - partialMarkerLength(markers, unread);
      if (certainLength > 0) {
        emit(unread.slice(0, certainLength));
        this.skip(certainLength);
      }
      if (found) return found.marker;
      if (this.#isEnded) return undefined;
      yield;
    }
  }

  /** Reads characters that match `pattern`, up to a maximum number. */
  *readWhile(pattern: RegExp, most: number): IncrementalParse<string> {
    let text = '';
    for (;;) {
      const char = yield* this.peek();
      if (char === '' || text.length >= most || !pattern.test(char)) return text;
      text += char;
      this.skip(1);
    }
  }
}

function findFirst(markers: readonly string[], text: string): { index: number; marker: string } | undefined {
  let first: { index: number; marker: string } | undefined;
  for (const marker of markers) {
    const index = text.indexOf(marker);
    if (index !== -1 && (!first || index < first.index)) first = { index, marker };
  }
  return first;
}

/** Number of characters at the end that may be the start of a marker. */
function partialMarkerLength(markers: readonly string[], text: string): number {
  let most = 0;
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, text.length); length > most; length--) {
      if (text.endsWith(marker.slice(0, length))) most = length;
    }
  }
  return most;
}
