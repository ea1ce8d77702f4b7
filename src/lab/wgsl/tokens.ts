/** WGSL tokenizer. Distinguishes template lists from comparisons. */

export interface Place {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 code units. */
  readonly column: number;
  /** In UTF-16 code units. */
  readonly length: number;
}

export interface Token extends Place {
  readonly kind: 'name' | 'number' | 'symbol';
  readonly text: string;
  /** From 0, in UTF-16 code units. */
  readonly offset: number;
  /** Index of the matching bracket, also for `<` and `>` of template lists; else -1. */
  readonly partner: number;
}

/** Token range: `from` inclusive, `to` exclusive. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

type Draft = { -readonly [K in keyof Token]: Token[K] };

const blank = /[\t \u200e\u200f]+/y;
const lineBreak = /\r\n|[\n\v\f\r\u0085\u2028\u2029]/y;
const lineComment = /\/\/[^\n\v\f\r\u0085\u2028\u2029]*/y;
const name = /[\p{XIDS}_]\p{XIDC}*/uy;
const number =
  /0[xX](?:[\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)(?:[pP][+-]?\d+[fh]?|[iu])?|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[iufh]?/y;
const symbol = /->|&&|\|\||==|!=|<<=|>>=|<=|>=|<<|>>|\+\+|--|[-+*/%&|^]=|[^]/y;

/** Expects source that Tint accepts. For other source, it returns tokens without meaning. */
export function tokenize(source: string): Token[] {
  const tokens: Draft[] = [];
  // Open brackets, and each `<` after a name: a template list if its `>` is found, else a comparison.
  const brackets: number[] = [];
  const candidates: { token: number; depth: number }[] = [];
  let at = 0;
  let line = 1;
  let lineStart = 0;

  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0];
  };
  const add = (kind: Token['kind'], text: string): Draft => {
    const token: Draft = {
      kind,
      text,
      offset: at,
      line,
      column: at - lineStart + 1,
      length: text.length,
      partner: -1,
    };
    tokens.push(token);
    at += text.length;
    return token;
  };
  const pair = (open: number): void => {
    const first = tokens[open];
    const last = tokens.at(-1);
    if (!first || !last) return;
    first.partner = tokens.length - 1;
    last.partner = open;
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
      const broken = code < 0x20 || code > 0x7f ? match(lineBreak) : undefined;
      if (broken === undefined) at++;
      else newLine(broken);
    } while (depth > 0 && at < source.length);
  };
  const dropCandidates = (): void => {
    while ((candidates.at(-1)?.depth ?? -1) >= brackets.length) candidates.pop();
  };

  while (at < source.length) {
    const code = source.charCodeAt(at);
    if (code === 0x20) {
      at++;
      continue;
    }
    const isFar = code > 0x7f;
    const isLetter = isFar || /[A-Za-z_]/.test(source[at] ?? '');
    const broken = code < 0x20 || isFar ? match(lineBreak) : undefined;
    if (broken !== undefined) {
      newLine(broken);
      continue;
    }
    const skipped = code < 0x20 || isFar ? match(blank) : code === 0x2f ? match(lineComment) : undefined;
    if (skipped !== undefined) {
      at += skipped.length;
      continue;
    }
    if (code === 0x2f && source.startsWith('/*', at)) {
      skipBlockComment();
      continue;
    }
    const word = isLetter ? match(name) : undefined;
    if (word !== undefined) {
      add('name', word);
      continue;
    }
    const digits = isLetter ? undefined : match(number);
    if (digits !== undefined) {
      add('number', digits);
      continue;
    }
    const open = candidates.at(-1);
    if (source[at] === '>' && open?.depth === brackets.length) {
      candidates.pop();
      add('symbol', '>');
      pair(open.token);
      continue;
    }
    const afterName = tokens.at(-1)?.kind === 'name';
    const { text } = add('symbol', match(symbol) ?? '');
    switch (text) {
      case '<':
        if (afterName) candidates.push({ token: tokens.length - 1, depth: brackets.length });
        break;
      case '(':
      case '[':
      case '{':
        if (text === '{') candidates.length = 0;
        brackets.push(tokens.length - 1);
        break;
      case ')':
      case ']':
      case '}': {
        dropCandidates();
        const opened = brackets.pop();
        if (opened !== undefined) pair(opened);
        break;
      }
      case '&&':
      case '||':
        dropCandidates();
        break;
      case ';':
      case ':':
      case '=':
        candidates.length = 0;
        break;
      default:
    }
  }
  return tokens;
}

/** Location of a range, from its first to its last token, possibly across lines. */
export function placeOf(tokens: readonly Token[], { from, to }: Range): Place {
  const first = tokens[from];
  const last = tokens[Math.max(from, to - 1)];
  if (!first || !last) return { line: 1, column: 1, length: 0 };
  return { line: first.line, column: first.column, length: last.offset + last.length - first.offset };
}

/** Splits a range at commas (or another separator) outside of brackets. A trailing separator is allowed. */
export function split(tokens: readonly Token[], { from, to }: Range, separator = ','): Range[] {
  const parts: Range[] = [];
  let start = from;
  for (let i = from; i < to; i++) {
    const token = tokens[i];
    if (token && token.partner > i) i = token.partner;
    else if (token?.text === separator) {
      parts.push({ from: start, to: i });
      start = i + 1;
    }
  }
  if (start < to) parts.push({ from: start, to });
  return parts;
}

/** Index of the first token with this text in the range, outside of nested brackets; `to` when there is none. */
export function find(tokens: readonly Token[], { from, to }: Range, text: string): number {
  for (let i = from; i < to; i++) {
    const token = tokens[i];
    if (token?.text === text) return i;
    if (token && token.partner > i) i = token.partner;
  }
  return to;
}
