import type { Reading, Source } from './source.ts';

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const words = ['true', 'false', 'null'];
const deepest = 256;

/** Validates one JSON value character by character and detects its end. */
class JsonFollower {
  /** Closing brackets of the open containers. */
  readonly #open: ('}' | ']')[] = [];
  #expect: 'value' | 'firstKey' | 'key' | 'colon' | 'next' | 'firstItem' = 'value';
  #word = '';
  #string: 'no' | 'text' | 'escape' | 'hex' = 'no';
  #hex = 0;
  #isKey = false;

  /**
   * Adds a character. `taken`: the value continues; `done`: it ends with this character; `over`: it ended before this
   * character; `bad`: it is not JSON.
   */
  take(char: string): 'taken' | 'done' | 'over' | 'bad' {
    if (this.#string !== 'no') return this.#inString(char);
    if (this.#word !== '') {
      if (/[\w.+-]/.test(char) && this.#word.length < 64) {
        this.#word += char;
        return 'taken';
      }
      if (!number.test(this.#word) && !words.includes(this.#word)) return 'bad';
      this.#word = '';
      if (this.#open.length === 0) return 'over';
      this.#expect = 'next';
    }
    if (/[ \t\r\n]/.test(char)) return 'taken';
    return this.#token(char);
  }

  /** Whether the value is complete if the text ends here. */
  get mayEnd(): boolean {
    return this.#open.length === 0 && (number.test(this.#word) || words.includes(this.#word));
  }

  get inString(): boolean {
    return this.#string === 'text';
  }

  #token(char: string): 'taken' | 'done' | 'bad' {
    const expect = this.#expect;
    if (char === this.#open.at(-1)) {
      if (expect !== 'next' && expect !== (char === '}' ? 'firstKey' : 'firstItem')) return 'bad';
      this.#open.pop();
      return this.#valueEnded();
    }
    if (expect === 'next') {
      if (char !== ',') return 'bad';
      this.#expect = this.#open.at(-1) === '}' ? 'key' : 'value';
      return 'taken';
    }
    if (expect === 'colon') {
      this.#expect = 'value';
      return char === ':' ? 'taken' : 'bad';
    }
    if (expect === 'key' || expect === 'firstKey') {
      if (char !== '"') return 'bad';
      this.#isKey = true;
      this.#string = 'text';
      return 'taken';
    }
    return this.#value(char);
  }

  #value(char: string): 'taken' | 'bad' {
    if (char === '"') {
      this.#isKey = false;
      this.#string = 'text';
    } else if (char === '{' || char === '[') {
      if (this.#open.length >= deepest) return 'bad';
      this.#open.push(char === '{' ? '}' : ']');
      this.#expect = char === '{' ? 'firstKey' : 'firstItem';
    } else if (/[-\dtfn]/.test(char)) {
      this.#word = char;
    } else {
      return 'bad';
    }
    return 'taken';
  }

  #inString(char: string): 'taken' | 'done' | 'bad' {
    if (this.#string === 'hex') {
      if (!/[\da-fA-F]/.test(char)) return 'bad';
      if (--this.#hex === 0) this.#string = 'text';
    } else if (this.#string === 'escape') {
      if (!/["\\/bfnrtu]/.test(char)) return 'bad';
      this.#hex = 4;
      this.#string = char === 'u' ? 'hex' : 'text';
    } else if (char === '\\') {
      this.#string = 'escape';
    } else if (char === '"') {
      this.#string = 'no';
      if (!this.#isKey) return this.#valueEnded();
      this.#expect = 'colon';
    }
    return 'taken';
  }

  #valueEnded(): 'taken' | 'done' {
    this.#expect = 'next';
    return this.#open.length === 0 ? 'done' : 'taken';
  }
}

/**
 * Reads one JSON value and emits its text as it arrives. Escapes raw line breaks in strings, which models write.
 * @returns whether the value is complete; stops before the first character that is not JSON
 */
export function* readJson(source: Source, emit: (text: string) => void): Reading<boolean> {
  const follower = new JsonFollower();
  for (;;) {
    const first = yield* source.peek();
    if (first === '') return follower.mayEnd;
    const { rest } = source;
    let text = '';
    let at = 0;
    for (; at < rest.length; at++) {
      const char = rest.charAt(at);
      const raw = follower.inString && char < ' ';
      const result = follower.take(char);
      if (result === 'bad' || result === 'over') {
        emit(text);
        source.skip(at);
        return result === 'over';
      }
      text += raw ? JSON.stringify(char).slice(1, -1) : char;
      if (result === 'done') {
        emit(text);
        source.skip(at + 1);
        return true;
      }
    }
    emit(text);
    source.skip(at);
  }
}

/** Reads one complete JSON value; undefined when there is none. */
export function* readWholeJson(source: Source): Reading<string | undefined> {
  const parts: string[] = [];
  const whole = yield* readJson(source, (text) => parts.push(text));
  return whole ? parts.join('') : undefined;
}
