/** WGSL tokenizer. Distinguishes template lists from comparisons. */

export interface SourceLocation {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 code units. */
  readonly column: number;
  /** In UTF-16 code units. */
  readonly length: number;
}

export interface Token extends SourceLocation {
  readonly kind: 'name' | 'number' | 'symbol';
  readonly text: string;
  /** From 0, in UTF-16 code units. */
  readonly offset: number;
  /** Index of the matching bracket, also for `<` and `>` of template lists; else -1. */
  readonly matchIndex: number;
}

/** Token range: `from` inclusive, `to` exclusive. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

type MutableToken = { -readonly [K in keyof Token]: Token[K] };

const blankPattern = /[\t \u200e\u200f]+/y;
const lineBreakPattern = /\r\n|[\n\v\f\r\u0085\u2028\u2029]/y;
const lineCommentPattern = /\/\/[^\n\v\f\r\u0085\u2028\u2029]*/y;
const namePattern = /[\p{XIDS}_]\p{XIDC}*/uy;
const numberPattern =
  /0[xX](?:[\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)(?:[pP][+-]?\d+[fh]?|[iu])?|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[iufh]?/y;
const symbolPattern = /->|&&|\|\||==|!=|<<=|>>=|<=|>=|<<|>>|\+\+|--|[-+*/%&|^]=|[^]/y;

/** Expects source that Tint accepts. For other source, it returns tokens without meaning. */
export function tokenize(source: string): Token[] {
  const tokens: MutableToken[] = [];
  // Open brackets, and each `<` after a name: a template list if its `>` is found, else a comparison.
  const brackets: number[] = [];
  const openTemplates: { token: number; depth: number }[] = [];
  let at = 0;
  let line = 1;
  let lineStart = 0;

  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0];
  };
  const add = (kind: Token['kind'], text: string): MutableToken => {
    const token: MutableToken = {
      kind,
      text,
      offset: at,
      line,
      column: at - lineStart + 1,
      length: text.length,
      matchIndex: -1,
    };
    tokens.push(token);
    at += text.length;
    return token;
  };
  const linkBrackets = (open: number): void => {
    const first = tokens[open];
    const last = tokens.at(-1);
    if (!first || !last) return;
    first.matchIndex = tokens.length - 1;
    last.matchIndex = open;
  };
  const newLine = (text: string): void => {
    at += text.length;
    line++;
    lineStart = at;
  };
  const skipBlockComment = (): void => {
    let depth = 0;
    do {
      if (source.startsWith('/*', at)) {
        depth++;
        at += 2;
        continue;
      }
      if (source.startsWith('*/', at)) {
        depth--;
        at += 2;
        continue;
      }
      const code = source.charCodeAt(at);
      const lineBreakText = code < 0x20 || code > 0x7f ? match(lineBreakPattern) : undefined;
      if (lineBreakText === undefined) at++;
      else newLine(lineBreakText);
    } while (depth > 0 && at < source.length);
  };
  const dropTemplates = (): void => {
    while ((openTemplates.at(-1)?.depth ?? -1) >= brackets.length) openTemplates.pop();
  };

  while (at < source.length) {
    const code = source.charCodeAt(at);
    if (code === 0x20) {
      at++;
      continue;
    }
    const isNonAscii = code > 0x7f;
    const isLetter = isNonAscii || /[A-Za-z_]/.test(source[at] ?? '');
    const lineBreakText = code < 0x20 || isNonAscii ? match(lineBreakPattern) : undefined;
    if (lineBreakText !== undefined) {
      newLine(lineBreakText);
      continue;
    }
    const skipped =
      code < 0x20 || isNonAscii ? match(blankPattern) : code === 0x2f ? match(lineCommentPattern) : undefined;
    if (skipped !== undefined) {
      at += skipped.length;
      continue;
    }
    if (code === 0x2f && source.startsWith('/*', at)) {
      skipBlockComment();
      continue;
    }
    const word = isLetter ? match(namePattern) : undefined;
    if (word !== undefined) {
      add('name', word);
      continue;
    }
    const digits = isLetter ? undefined : match(numberPattern);
    if (digits !== undefined) {
      add('number', digits);
      continue;
    }
    const open = openTemplates.at(-1);
    if (source[at] === '>' && open?.depth === brackets.length) {
      openTemplates.pop();
      add('symbol', '>');
      linkBrackets(open.token);
      continue;
    }
    const afterName = tokens.at(-1)?.kind === 'name';
    const { text } = add('symbol', match(symbolPattern) ?? '');
    switch (text) {
      case '<':
        if (afterName) openTemplates.push({ token: tokens.length - 1, depth: brackets.length });
        break;
      case '(':
      case '[':
      case '{':
        if (text === '{') openTemplates.length = 0;
        brackets.push(tokens.length - 1);
        break;
      case ')':
      case ']':
      case '}': {
        dropTemplates();
        const opened = brackets.pop();
        if (opened !== undefined) linkBrackets(opened);
        break;
      }
      case '&&':
      case '||':
        dropTemplates();
        break;
      case ';':
      case ':':
      case '=':
        openTemplates.length = 0;
        break;
      default:
    }
  }
  return tokens;
}

/** Location of a range, from its first to its last token, possibly across lines. */
export function locationOf(tokens: readonly Token[], { from, to }: Range): SourceLocation {
  const first = tokens[from];
  const last = tokens[Math.max(from, to - 1)];
  if (!first || !last) return { line: 1, column: 1, length: 0 };
  return { line: first.line, column: first.column, length: last.offset + last.length - first.offset };
}

/** Splits a range at commas (or another separator) outside of brackets. A trailing separator is allowed. */
export function splitRange(tokens: readonly Token[], { from, to }: Range, separator = ','): Range[] {
  const parts: Range[] = [];
  let start = from;
  for (let i = from; i < to; i++) {
    const token = tokens[i];
    if (token && token.matchIndex > i) i = token.matchIndex;
    else if (token?.text === separator) {
      parts.push({ from: start, to: i });
      start = i + 1;
    }
  }
  if (start < to) parts.push({ from: start, to });
  return parts;
}

/** Index of the first token with this text in the range, outside of nested brackets; `to` when there is none. */
export function findToken(tokens: readonly Token[], { from, to }: Range, text: string): number {
  for (let i = from; i < to; i++) {
    const token = tokens[i];
    if (token?.text === text) return i;
    if (token && token.matchIndex > i) i = token.matchIndex;
  }
  return to;
}
