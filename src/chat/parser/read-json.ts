import type { IncrementalParse, TextStream } from './text-stream.ts';

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const literals = ['true', 'false', 'null'];
const maxDepth = 256;

/** Validates one JSON value character by character and detects its end. */
class JsonScanner {
  /** Closing brackets of the open containers. */
  readonly #openContainers: ('}' | ']')[] = [];
  #expected: 'value' | 'firstKey' | 'key' | 'colon' | 'next' | 'firstItem' = 'value';
  #literal = '';
  #stringState: 'no' | 'text' | 'escape' | 'hex' = 'no';
  #remainingHexDigits = 0;
  #isKey = false;

  /**
   * Adds a character. `taken`: the value continues; `done`: it ends with this character; `over`: it ended before this
   * character; `bad`: it is not JSON.
   */
  push(char: string): 'taken' | 'done' | 'over' | 'bad' {
    if (this.#stringState !== 'no') return this.#isInString(char);
    if (this.#literal !== '') {
      if (/[\w.+-]/.test(char) && this.#literal.length < 64) {
        this.#literal += char;
        return 'taken';
      }
      if (!number.test(this.#literal) && !literals.includes(this.#literal)) return 'bad';
      this.#literal = '';
      if (this.#openContainers.length === 0) return 'over';
      this.#expected = 'next';
    }
    if (/[ \t\r\n]/.test(char)) return 'taken';
    return this.#pushToken(char);
  }

  /** Whether the value is complete if the text ends here. */
  get mayEnd(): boolean {
    return (
      this.#openContainers.length === 0 && (number.test(this.#literal) || literals.includes(this.#literal))
    );
  }

  get isInString(): boolean {
    return this.#stringState === 'text';
  }

  #pushToken(char: string): 'taken' | 'done' | 'bad' {
    const expected = this.#expected;
    if (char === this.#openContainers.at(-1)) {
      if (expected !== 'next' && expected !== (char === '}' ? 'firstKey' : 'firstItem')) return 'bad';
      this.#openContainers.pop();
      return this.#endValue();
    }
    if (expected === 'next') {
      if (char !== ',') return 'bad';
      this.#expected = this.#openContainers.at(-1) === '}' ? 'key' : 'value';
      return 'taken';
    }
    if (expected === 'colon') {
      this.#expected = 'value';
      return char === ':' ? 'taken' : 'bad';
    }
    if (expected === 'key' || expected === 'firstKey') {
      if (char !== '"') return 'bad';
      this.#isKey = true;
      this.#stringState = 'text';
      return 'taken';
    }
    return this.#startValue(char);
  }

  #startValue(char: string): 'taken' | 'bad' {
    if (char === '"') {
      this.#isKey = false;
      this.#stringState = 'text';
    } else if (char === '{' || char === '[') {
      if (this.#openContainers.length >= maxDepth) return 'bad';
      this.#openContainers.push(char === '{' ? '}' : ']');
      this.#expected = char === '{' ? 'firstKey' : 'firstItem';
    } else if (/[-\dtfn]/.test(char)) {
      this.#literal = char;
    } else {
      return 'bad';
    }
    return 'taken';
  }

  #isInString(char: string): 'taken' | 'done' | 'bad' {
    if (this.#stringState === 'hex') {
      if (!/[\da-fA-F]/.test(char)) return 'bad';
      if (--this.#remainingHexDigits === 0) this.#stringState = 'text';
    } else if (this.#stringState === 'escape') {
      if (!/["\\/bfnrtu]/.test(char)) return 'bad';
      this.#remainingHexDigits = 4;
      this.#stringState = char === 'u' ? 'hex' : 'text';
    } else if (char === '\\') {
      this.#stringState = 'escape';
    } else if (char === '"') {
      this.#stringState = 'no';
      if (!this.#isKey) return this.#endValue();
      this.#expected = 'colon';
    }
    return 'taken';
  }

  #endValue(): 'taken' | 'done' {
    this.#expected = 'next';
    return this.#openContainers.length === 0 ? 'done' : 'taken';
  }
}

/**
 * Reads one JSON value and emits its text as it arrives. Escapes raw line breaks in strings, which models write.
 * @returns whether the value is complete; stops before the first character that is not JSON
 */
export function* readJson(stream: TextStream, emit: (text: string) => void): IncrementalParse<boolean> {
  const scanner = new JsonScanner();
  for (;;) {
    const first = yield* stream.peek();
    if (first === '') return scanner.mayEnd;
    const { unread } = stream;
    let text = '';
    let at = 0;
    for (; at < unread.length; at++) {
      const char = unread.charAt(at);
      const needsEscape = scanner.isInString && char < ' ';
      const result = scanner.push(char);
      if (result === 'bad' || result === 'over') {
        emit(text);
        stream.skip(at);
        return result === 'over';
      }
      text += needsEscape ? JSON.stringify(char).slice(1, -1) : char;
      if (result === 'done') {
        emit(text);
        stream.skip(at + 1);
        return true;
      }
    }
    emit(text);
    stream.skip(at);
  }
}

/** Reads one complete JSON value; undefined when there is none. */
export function* readWholeJson(stream: TextStream): IncrementalParse<string | undefined> {
  const parts: string[] = [];
  const isComplete = yield* readJson(stream, (text) => parts.push(text));
  return isComplete ? parts.join('') : undefined;
}
