import { findPropertyClass } from './character-properties.ts';

/**
 * Parses the Oniguruma regular expressions of tokenizer.json and converts them to JavaScript. Every character class
 * becomes a numbered set; class-pattern.ts compiles the sets for texts with one byte per character.
 */
export interface ParsedExpression {
  readonly source: string;
  /** JavaScript source between the sets, and set numbers. */
  readonly parts: readonly (string | number)[];
  /** By set number: matches one character. */
  readonly sets: readonly RegExp[];
}

export class ExpressionError extends Error {}

/** A capturing group that has no number yet. JavaScript numbers all groups from the left, including added ones. */
interface CaptureGroup {
  isReferenced: boolean;
  /** Whether it can match non-ASCII characters, which are not distinguishable after the mapping to classes. */
  canMatchNonAscii: boolean;
}
type Part = string | number | { readonly open: CaptureGroup } | { readonly back: CaptureGroup };

/** A member of a bracketed class. */
type ClassMember =
  | { readonly isClass: true; readonly text: string }
  | { readonly isClass: false; readonly char: string };

interface Flags {
  readonly ignoreCase: boolean;
  readonly dotAll: boolean;
}

const wordInBrackets = '[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]';
/** Outside brackets, Oniguruma's `\w` also has six Latin-1 digits. */
const word = `[${wordInBrackets}²³¹¼½¾]`;
const shorthandClasses: Readonly<Record<string, string>> = {
  d: '\\p{Nd}',
  w: wordInBrackets,
  s: '\\p{White_Space}',
  h: '[0-9A-Fa-f]',
};
const controlEscapes: Readonly<Record<string, string>> = {
  t: '\t',
  n: '\n',
  r: '\r',
  f: '\f',
  v: '\v',
  a: '\x07',
  e: '\x1b',
};

/** @throws ExpressionError for syntax errors and for features that JavaScript cannot express */
export function parseExpression(source: string): ParsedExpression {
  return new ExpressionParser(source).parse();
}

class ExpressionParser {
  readonly #source: string;
  #position = 0;
  readonly #parts: Part[] = [];
  readonly #sets: RegExp[] = [];
  readonly #setNumbers = new Map<string, number>();
  /** The capturing groups of the source expression, and those that are open. */
  readonly #groups: CaptureGroup[] = [];
  readonly #open: CaptureGroup[] = [];

  constructor(source: string) {
    this.#source = source;
  }

  parse(): ParsedExpression {
    this.#alternatives({ ignoreCase: false, dotAll: false });
    if (this.#position < this.#source.length) throw this.#error('an unmatched )');
    return { source: this.#source, parts: this.#numberGroups(), sets: this.#sets };
  }

  #error(what: string): ExpressionError {
    return new ExpressionError(`${what} at character ${this.#position} of ${JSON.stringify(this.#source)}`);
  }

  #peek(text: string): boolean {
    return this.#source.startsWith(text, this.#position);
  }

  #consume(text: string): boolean {
    if (!this.#peek(text)) return false;
    this.#position += text.length;
    return true;
  }

  /** Consumes one code point. */
  #next(): string {
    const point = this.#source.codePointAt(this.#position);
    if (point === undefined) throw this.#error('an unfinished expression');
    const char = String.fromCodePoint(point);
    this.#position += char.length;
    return char;
  }

  #consumeMatch(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#position;
    const match = pattern.exec(this.#source);
    if (match) this.#position += match[0].length;
    return match ?? undefined;
  }

  /** Parses alternatives up to the end or the `)` that closes the group. */
  #alternatives(outer: Flags): void {
    let flags = outer;
    while (this.#position < this.#source.length && !this.#peek(')')) {
      if (this.#consume('|')) {
        this.#parts.push('|');
        continue;
      }
      const inline = this.#consumeMatch(/\(\?([im]*)(?:-([im]+))?\)/y);
      if (inline) {
        flags = applyFlags(flags, inline[1] ?? '', inline[2] ?? '');
        continue;
      }
      const start = this.#parts.length;
      this.#atom(flags);
      this.#quantifiers(start);
    }
  }

  #atom(flags: Flags): void {
    if (this.#peek('(')) return this.#group(flags);
    if (this.#peek('[')) return this.#set(this.#class(), flags);
    if (this.#peek('\\')) return this.#escape(flags);
    const char = this.#next();
    if (char === '.') this.#set(flags.dotAll ? '[^]' : '[^\\n]', flags);
    // As in Ruby, `^` and `$` match at line boundaries.
    else if (char === '^') this.#parts.push('(?<![^\\n])');
    else if (char === '$') this.#parts.push('(?![^\\n])');
    else if (char === '*' || char === '+' || char === '?') throw this.#error(`nothing to repeat`);
    else this.#literal(char, flags);
  }

  #literal(char: string, flags: Flags): void {
    const isCased = flags.ignoreCase && char.toLowerCase() !== char.toUpperCase();
    if (isCased || char > '\x7f') this.#set(`[${escapeCharacter(char)}]`, flags);
    else this.#parts.push(escapeCharacter(char));
  }

  #set(text: string, flags: Flags): void {
    const mode = flags.ignoreCase ? 'vi' : 'v';
    const key = `${mode}${text}`;
    let number = this.#setNumbers.get(key);
    if (number === undefined) {
      number = this.#sets.push(this.#compileSet(`^${text}$`, mode)) - 1;
      this.#setNumbers.set(key, number);
    }
    // Only ASCII characters are not mapped to classes.
    const isAsciiClass = /^\[(?:\\u\{[0-7]?[0-9a-f]\}-?)*\]$/.test(text) && !flags.ignoreCase;
    if (!isAsciiClass) for (const group of this.#open) group.canMatchNonAscii = true;
    this.#parts.push(number);
  }

  #compileSet(text: string, mode: string): RegExp {
    try {
      return new RegExp(text, mode);
    } catch {
      throw this.#error(`a class that JavaScript does not have (${text})`);
    }
  }

  #group(flags: Flags): void {
    const opening = this.#consumeMatch(
      /\((?:\?(?:[:=!>]|<[=!]|#[^)]*\)|<\w+>|([im]*)(?:-([im]+))?:))?/y,
    ) as RegExpExecArray;
    const head = opening[0];
    if (head.startsWith('(?#')) return;
    if (head === '(' && this.#peek('?')) throw this.#error('a group of an unknown kind');
    const inner = head.endsWith(':') ? applyFlags(flags, opening[1] ?? '', opening[2] ?? '') : flags;
    if (head === '(' || /^\(\?<\w/.test(head)) this.#capture(inner);
    else if (head === '(?>') this.#atomic(this.#parts.length, () => this.#alternatives(inner));
    else {
      this.#parts.push(head.endsWith(':') ? '(?:' : head);
      this.#alternatives(inner);
      this.#parts.push(')');
    }
    if (!this.#consume(')')) throw this.#error('a group without its )');
  }

  #capture(flags: Flags): void {
    const group: CaptureGroup = { isReferenced: false, canMatchNonAscii: false };
    this.#groups.push(group);
    this.#open.push(group);
    this.#parts.push({ open: group });
    this.#alternatives(flags);
    this.#parts.push(')');
    this.#open.splice(this.#open.indexOf(group), 1);
  }

  /** Emulates an atomic group, which JavaScript lacks, with a look-ahead and a back-reference: both never backtrack. */
  #atomic(start: number, body?: () => void): void {
    const group: CaptureGroup = { isReferenced: true, canMatchNonAscii: false };
    this.#parts.splice(start, 0, '(?:(?=', { open: group });
    body?.();
    this.#parts.push('))', { back: group }, ')');
  }

  #quantifiers(start: number): void {
    let repeated = false;
    for (;;) {
      const found = this.#consumeMatch(/([*+?])([?+]?)|\{(\d*)(,?)(\d*)\}(\??)/y);
      if (!found) return;
      const [text, sign, mode, from, comma, to] = found;
      if (!sign && from === '' && to === '') {
        // `{,}` and `{}` are literal text.
        this.#position -= text.length;
        return;
      }
      if (repeated) {
        this.#parts.splice(start, 0, '(?:');
        this.#parts.push(')');
      }
      repeated = true;
      if (sign) {
        this.#parts.push(mode === '?' ? `${sign}?` : sign);
        if (mode === '+') this.#atomic(start);
      } else {
        if (text.endsWith('?')) throw this.#error('a lazy {}');
        this.#parts.push(comma ? `{${from || '0'},${to ?? ''}}` : `{${from}}`);
      }
    }
  }

  #escape(flags: Flags): void {
    this.#position++;
    const reference = this.#consumeMatch(/[1-9]/y);
    if (reference) return this.#reference(Number(reference[0]));
    const position = this.#position;
    const char = this.#next();
    if (char === 'A') this.#parts.push('^');
    else if (char === 'z') this.#parts.push('$');
    else if (char === 'Z') this.#parts.push('(?=\\n?$)');
    else if (char === 'b' || char === 'B') this.#wordBoundary(char === 'b', flags);
    else if (char === 'w' || char === 'W') this.#set(char === 'w' ? word : `[^${word}]`, flags);
    else if ('GKRXyYkgN'.includes(char)) throw this.#error(`\\${char}`);
    else {
      this.#position = position;
      const found = this.#classEscape();
      if (found.isClass) this.#set(`[${found.text}]`, flags);
      else this.#literal(found.char, flags);
    }
  }

  #reference(number: number): void {
    const group = this.#groups[number - 1];
    if (!group || group.canMatchNonAscii) throw this.#error('a back-reference to more than ASCII');
    group.isReferenced = true;
    this.#parts.push({ back: group });
  }

  #wordBoundary(isPositive: boolean, flags: Flags): void {
    const side = (sign: string) => {
      this.#parts.push(`(?${sign}`);
      this.#set(word, flags);
      this.#parts.push(')');
    };
    this.#parts.push('(?:');
    side('<=');
    side(isPositive ? '!' : '=');
    this.#parts.push('|');
    side('<!');
    side(isPositive ? '=' : '!');
    this.#parts.push(')');
  }

  /** Parses the escape after a backslash: a class or a character. */
  #classEscape(): ClassMember {
    const property = this.#consumeMatch(/([pP])\{(\^?)([^}]+)\}/y);
    if (property) {
      const [, letter, not, name] = property as unknown as [string, string, string, string];
      const text = findPropertyClass(name);
      if (!text) throw this.#error(`the unknown property ${name}`);
      return { isClass: true, text: (letter === 'P') !== (not === '^') ? `[^${text}]` : text };
    }
    const code = this.#consumeMatch(
      /x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|0([0-7]{0,2})/y,
    );
    if (code) {
      const hex = code[1] ?? code[2] ?? code[3];
      const point = hex === undefined ? Number.parseInt(code[4] || '0', 8) : Number.parseInt(hex, 16);
      return { isClass: false, char: String.fromCodePoint(point) };
    }
    const char = this.#next();
    const lower = char.toLowerCase();
    const text = shorthandClasses[lower];
    if (text) return { isClass: true, text: char === lower ? text : `[^${text}]` };
    if (controlEscapes[char]) return { isClass: false, char: controlEscapes[char] };
    if (/[a-zA-Z0-9]/.test(char)) throw this.#error(`\\${char}`);
    return { isClass: false, char };
  }

  /** Converts a bracketed class to JavaScript's `v` mode. */
  #class(): string {
    this.#position++;
    const not = this.#consume('^') ? '^' : '';
    const operands: string[] = [];
    let items = this.#consume(']') ? escapeCharacter(']') : '';
    while (!this.#consume(']')) {
      if (this.#consume('&&')) {
        operands.push(`[${items}]`);
        items = '';
      } else {
        items += this.#classItem();
      }
    }
    return `[${not}${operands.length > 0 ? [...operands, `[${items}]`].join('&&') : items}]`;
  }

  #classItem(): string {
    const posix = this.#consumeMatch(/\[:(\^?)(\w+):\]/y);
    if (posix) {
      const text = findPropertyClass(posix[2] as string);
      if (!text) throw this.#error(`the unknown class ${posix[0]}`);
      return posix[1] ? `[^${text}]` : text;
    }
    if (this.#peek('[')) return this.#class();
    const first = this.#classMember();
    if (first.isClass) return first.text;
    const from = escapeCharacter(first.char);
    if (!this.#peek('-') || this.#peek('-]') || this.#peek('-[')) return from;
    const dash = this.#position++;
    const last = this.#classMember();
    // `a-\w` has three members: `a`, the dash and `\w`.
    if (last.isClass) {
      this.#position = dash + 1;
      return from + escapeCharacter('-');
    }
    return `${from}-${escapeCharacter(last.char)}`;
  }

  #classMember(): ClassMember {
    if (!this.#consume('\\')) return { isClass: false, char: this.#next() };
    if (this.#consume('b')) return { isClass: false, char: '\b' };
    return this.#classEscape();
  }

  /** Makes groups without references non-capturing, and numbers the others. */
  #numberGroups(): (string | number)[] {
    const numbers = new Map<CaptureGroup, number>();
    return this.#parts.map((part) => {
      if (typeof part !== 'object') return part;
      if ('back' in part) return `(?:\\${numbers.get(part.back)})`;
      if (!part.open.isReferenced) return '(?:';
      numbers.set(part.open, numbers.size + 1);
      return '(';
    });
  }
}

function applyFlags(flags: Flags, on: string, off: string): Flags {
  const state = (letter: string, now: boolean) => (now || on.includes(letter)) && !off.includes(letter);
  return { ignoreCase: state('i', flags.ignoreCase), dotAll: state('m', flags.dotAll) };
}

/** Escapes a character so that it is literal inside and outside brackets. */
function escapeCharacter(char: string): string {
  const point = char.codePointAt(0) as number;
  return point < 0x80 && /[A-Za-z0-9 ]/.test(char) ? char : `\\u{${point.toString(16)}}`;
}
