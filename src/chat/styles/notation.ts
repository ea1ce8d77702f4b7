import type { Reading, Source } from '../parser/source.ts';

/** A syntax of values that is not JSON. */
export interface Notation {
  /** Quotes of strings. */
  readonly quotes: readonly string[];
  /** Whether `\` starts an escape sequence in strings. */
  readonly escapes: boolean;
  readonly words: Readonly<Record<string, string>>;
  /** Whether object keys may be unquoted. */
  readonly bareKeys: boolean;
}

const number = /^-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const deepest = 64;

/** Reads one value and emits it as JSON; strings are streamed. Returns false when it is invalid or incomplete. */
export function* readValue(
  source: Source,
  notation: Notation,
  emit: (json: string) => void,
  depth = 0,
): Reading<boolean> {
  if (depth > deepest) return false;
  yield* source.space();
  const quote = yield* source.upcoming(notation.quotes);
  if (quote !== undefined) return yield* readText(source, notation, quote, emit);
  if (yield* source.accept('{')) return yield* readMembers(source, notation, emit, depth);
  if (yield* source.accept('[')) return yield* readItems(source, notation, emit, depth);
  const word = yield* source.whileMatching(/[\w.+-]/, 64);
  const json = Object.hasOwn(notation.words, word) ? notation.words[word] : plainNumber(word);
  if (json === undefined) return false;
  emit(json);
  return true;
}

/** Reads object members up to the closing brace. */
export function* readMembers(
  source: Source,
  notation: Notation,
  emit: (json: string) => void,
  depth = 0,
): Reading<boolean> {
  emit('{');
  yield* source.space();
  for (let count = 0; !(yield* source.accept('}')); count++) {
    if (count > 0) {
      if (!(yield* source.accept(','))) return false;
      emit(', ');
    }
    const key = yield* readKey(source, notation);
    if (key === undefined) return false;
    yield* source.space();
    if (!(yield* source.accept(':'))) return false;
    emit(`${JSON.stringify(key)}: `);
    if (!(yield* readValue(source, notation, emit, depth + 1))) return false;
    yield* source.space();
  }
  emit('}');
  return true;
}

function* readKey(source: Source, notation: Notation): Reading<string | undefined> {
  yield* source.space();
  const quote = yield* source.upcoming(notation.quotes);
  if (quote !== undefined) {
    const parts: string[] = [];
    const whole = yield* readText(source, notation, quote, (json) => parts.push(json));
    return whole ? (JSON.parse(parts.join('')) as string) : undefined;
  }
  if (!notation.bareKeys) return undefined;
  const key = (yield* source.whileMatching(/[^\n:,{}[\]<]/, 256)).trimEnd();
  return key === '' ? undefined : key;
}

function* readItems(
  source: Source,
  notation: Notation,
  emit: (json: string) => void,
  depth: number,
): Reading<boolean> {
  emit('[');
  yield* source.space();
  for (let count = 0; !(yield* source.accept(']')); count++) {
    if (count > 0) {
      if (!(yield* source.accept(','))) return false;
      emit(', ');
    }
    if (!(yield* readValue(source, notation, emit, depth + 1))) return false;
    yield* source.space();
  }
  emit(']');
  return true;
}

function* readText(
  source: Source,
  notation: Notation,
  quote: string,
  emit: (json: string) => void,
): Reading<boolean> {
  source.skip(quote.length);
  emit('"');
  const ends = notation.escapes ? [quote, '\\'] : [quote];
  for (;;) {
    const end = yield* source.until(ends, (text) => emit(JSON.stringify(text).slice(1, -1)));
    if (end === undefined) return false;
    source.skip(end.length);
    if (end === quote) break;
    const char = yield* source.peek();
    if (char === '') return false;
    source.skip(1);
    if (char === 'u') {
      const digits = yield* source.whileMatching(/[\da-fA-F]/, 4);
      emit(digits.length === 4 ? `\\u${digits}` : JSON.stringify(`\\u${digits}`).slice(1, -1));
    } else {
      emit(JSON.stringify(unescaped(char)).slice(1, -1));
    }
  }
  emit('"');
  return true;
}

const unescaped = (char: string): string => {
  const known: Readonly<Record<string, string>> = {
    n: '\n',
    t: '\t',
    r: '\r',
    '\\': '\\',
    "'": "'",
    '"': '"',
    '/': '/',
    b: '\b',
    f: '\f',
  };
  return known[char] ?? `\\${char}`;
};

function plainNumber(word: string): string | undefined {
  if (!number.test(word)) return undefined;
  const value = Number(word);
  if (!Number.isFinite(value)) return undefined;
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(word) ? word : String(value);
}
