import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';

/** A syntax of values that is not JSON. */
export interface LiteralSyntax {
  /** Quotes of strings. */
  readonly quotes: readonly string[];
  /** Whether `\` starts an escape sequence in strings. */
  readonly escapes: boolean;
  readonly keywords: Readonly<Record<string, string>>;
  /** Whether object keys may be unquoted. */
  readonly bareKeys: boolean;
}

const number = /^-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const maxDepth = 64;

/** Reads one value and emits it as JSON; strings are streamed. Returns false when it is invalid or incomplete. */
export function* readValue(
  stream: TextStream,
  syntax: LiteralSyntax,
  emit: (json: string) => void,
  depth = 0,
): IncrementalParse<boolean> {
  if (depth > maxDepth) return false;
  yield* stream.skipSpace();
  const quote = yield* stream.peekAny(syntax.quotes);
  if (quote !== undefined) return yield* readText(stream, syntax, quote, emit);
  if (yield* stream.accept('{')) return yield* readMembers(stream, syntax, emit, depth);
  if (yield* stream.accept('[')) return yield* readItems(stream, syntax, emit, depth);
  const word = yield* stream.readWhile(/[\w.+-]/, 64);
  const json = Object.hasOwn(syntax.keywords, word) ? syntax.keywords[word] : toJsonNumber(word);
  if (json === undefined) return false;
  emit(json);
  return true;
}

/** Reads object members up to the closing brace. */
export function* readMembers(
  stream: TextStream,
  syntax: LiteralSyntax,
  emit: (json: string) => void,
  depth = 0,
): IncrementalParse<boolean> {
  emit('{');
  yield* stream.skipSpace();
  for (let count = 0; !(yield* stream.accept('}')); count++) {
    if (count > 0) {
      if (!(yield* stream.accept(','))) return false;
      emit(', ');
    }
    const key = yield* readKey(stream, syntax);
    if (key === undefined) return false;
    yield* stream.skipSpace();
    if (!(yield* stream.accept(':'))) return false;
    emit(`${JSON.stringify(key)}: `);
    if (!(yield* readValue(stream, syntax, emit, depth + 1))) return false;
    yield* stream.skipSpace();
  }
  emit('}');
  return true;
}

function* readKey(stream: TextStream, syntax: LiteralSyntax): IncrementalParse<string | undefined> {
  yield* stream.skipSpace();
  const quote = yield* stream.peekAny(syntax.quotes);
  if (quote !== undefined) {
    const parts: string[] = [];
    const isComplete = yield* readText(stream, syntax, quote, (json) => parts.push(json));
    return isComplete ? (JSON.parse(parts.join('')) as string) : undefined;
  }
  if (!syntax.bareKeys) return undefined;
  const key = (yield* stream.readWhile(/[^\n:,{}[\]<]/, 256)).trimEnd();
  return key === '' ? undefined : key;
}

function* readItems(
  stream: TextStream,
  syntax: LiteralSyntax,
  emit: (json: string) => void,
  depth: number,
): IncrementalParse<boolean> {
  emit('[');
  yield* stream.skipSpace();
  for (let count = 0; !(yield* stream.accept(']')); count++) {
    if (count > 0) {
      if (!(yield* stream.accept(','))) return false;
      emit(', ');
    }
    if (!(yield* readValue(stream, syntax, emit, depth + 1))) return false;
    yield* stream.skipSpace();
  }
  emit(']');
  return true;
}

function* readText(
  stream: TextStream,
  syntax: LiteralSyntax,
  quote: string,
  emit: (json: string) => void,
): IncrementalParse<boolean> {
  stream.skip(quote.length);
  emit('"');
  const ends = syntax.escapes ? [quote, '\\'] : [quote];
  for (;;) {
    const end = yield* stream.readUntil(ends, (text) => emit(JSON.stringify(text).slice(1, -1)));
    if (end === undefined) return false;
    stream.skip(end.length);
    if (end === quote) break;
    const char = yield* stream.peek();
    if (char === '') return false;
    stream.skip(1);
    if (char === 'u') {
      const digits = yield* stream.readWhile(/[\da-fA-F]/, 4);
      emit(digits.length === 4 ? `\\u${digits}` : JSON.stringify(`\\u${digits}`).slice(1, -1));
    } else {
      emit(JSON.stringify(unescapeCharacter(char)).slice(1, -1));
    }
  }
  emit('"');
  return true;
}

const unescapeCharacter = (char: string): string => {
  const escapedCharacters: Readonly<Record<string, string>> = {
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
  return escapedCharacters[char] ?? `\\${char}`;
};

function toJsonNumber(word: string): string | undefined {
  if (!number.test(word)) return undefined;
  const value = Number(word);
  if (!Number.isFinite(value)) return undefined;
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(word) ? word : String(value);
}
