/** Parses the statements of a function to a tree of token ranges. */
import { readAttributes, readInitializer } from './declarations.ts';
import { findToken, splitRange, type Range, type Token } from './tokens.ts';

export type Statement =
  | ({ readonly kind: 'block' | 'continuing'; readonly body: readonly Statement[] } & Range)
  | ({ readonly kind: 'if'; readonly branches: readonly Branch[] } & Range)
  | ({ readonly kind: 'loop'; readonly body: readonly Statement[] } & Range)
  | ({ readonly kind: 'while'; readonly condition: Range; readonly body: readonly Statement[] } & Range)
  | ({
      readonly kind: 'for';
      readonly init: readonly Statement[];
      readonly condition?: Range;
      readonly update: readonly Statement[];
      readonly body: readonly Statement[];
    } & Range)
  | ({
      readonly kind: 'switch';
      readonly condition: Range;
      readonly cases: readonly (readonly Statement[])[];
      /** What stands before the body of each case: `case 1, 2`, `default`, ... */
      readonly selectors: readonly Range[];
    } & Range)
  | ({ readonly kind: 'break' | 'continue' } & Range)
  | ({ readonly kind: 'break_if'; readonly condition: Range } & Range)
  | ({ readonly kind: 'return'; readonly value: Range } & Range)
  | ({
      readonly kind: 'declare';
      readonly keyword: 'let' | 'var' | 'const';
      /** Token index of the name. */
      readonly name: number;
      readonly type?: Range;
      readonly value?: Range;
    } & Range)
  /** Also `++` and `--`, with an empty `value` range. */
  | ({
      readonly kind: 'assign';
      readonly target: Range;
      readonly operator: string;
      readonly value: Range;
    } & Range)
  | ({ readonly kind: 'call'; readonly call: Range } & Range);

/** Branch of an `if`. `else` has no condition. */
interface Branch {
  readonly condition?: Range;
  readonly body: readonly Statement[];
}

const assignmentOperators: ReadonlySet<string> = new Set(
  '= += -= *= /= %= &= |= ^= <<= >>= ++ --'.split(' '),
);

export function readStatements(tokens: readonly Token[], range: Range): Statement[] {
  const statements: Statement[] = [];
  let at = range.from;
  while (at < range.to) {
    const statement = readStatement(tokens, { from: at, to: range.to });
    at = Math.max(at + 1, statement?.to ?? 0);
    if (statement) statements.push(statement);
  }
  return statements;
}

/** Returns undefined for an empty statement and for irrelevant ones, such as `const_assert`. */
function readStatement(tokens: readonly Token[], range: Range): Statement | undefined {
  const from = readAttributes(tokens, range.from).end;
  const keyword = tokens[from]?.text;
  const partner = (index: number): number => Math.max(index, tokens[index]?.matchIndex ?? 0);
  const insideBraces = (open: number): Range => ({ from: open + 1, to: partner(open) });
  /** Statements in the first braces after `start`, with the token indices of the braces. */
  const readBraces = (start: number): { open: number; close: number; body: Statement[] } => {
    const open = findToken(tokens, { from: start, to: range.to }, '{');
    return { open, close: partner(open), body: readStatements(tokens, insideBraces(open)) };
  };

  switch (keyword) {
    case ';':
      return undefined;
    case '{': {
      const { close, body } = readBraces(from);
      return { kind: 'block', body, from, to: close + 1 };
    }
    case 'continuing': {
      const { close, body } = readBraces(from);
      return { kind: 'continuing', body, from, to: close + 1 };
    }
    case 'loop': {
      const { close, body } = readBraces(from);
      return { kind: 'loop', body, from, to: close + 1 };
    }
    case 'while': {
      const { open, close, body } = readBraces(from);
      return { kind: 'while', condition: { from: from + 1, to: open }, body, from, to: close + 1 };
    }
    case 'if': {
      const branches: Branch[] = [];
      let at = from;
      let to = from;
      for (let hasElse = true; hasElse; ) {
        const { open, close, body } = readBraces(at);
        const start = tokens[at]?.text === 'else' ? at + 1 : at;
        const hasCondition = tokens[start]?.text === 'if';
        branches.push({ ...(hasCondition && { condition: { from: start + 1, to: open } }), body });
        to = close + 1;
        at = to;
        hasElse = tokens[to]?.text === 'else';
      }
      return { kind: 'if', branches, from, to };
    }
    case 'for': {
      const header = insideBraces(from + 1);
      const first = findToken(tokens, header, ';');
      const second = findToken(tokens, { from: first + 1, to: header.to }, ';');
      const { close, body } = readBraces(header.to);
      return {
        kind: 'for',
        init: readStatements(tokens, { from: header.from, to: first }),
        ...(second > first + 1 && { condition: { from: first + 1, to: second } }),
        update: readStatements(tokens, { from: second + 1, to: header.to }),
        body,
        from,
        to: close + 1,
      };
    }
    case 'switch': {
      const { open, close } = readBraces(from);
      const cases: Statement[][] = [];
      const selectors: Range[] = [];
      for (let at = open + 1; at < close; ) {
        const caseOpen = findToken(tokens, { from: at, to: close }, '{');
        if (caseOpen >= close) break;
        cases.push(readStatements(tokens, insideBraces(caseOpen)));
        selectors.push({ from: at, to: caseOpen });
        at = partner(caseOpen) + 1;
      }
      return {
        kind: 'switch',
        condition: { from: from + 1, to: open },
        cases,
        selectors,
        from,
        to: close + 1,
      };
    }
    default:
      return readSimpleStatement(tokens, { from, to: findToken(tokens, { from, to: range.to }, ';') });
  }
}

/** Reads a statement that ends in a semicolon, or one in the header of a `for`. */
function readSimpleStatement(tokens: readonly Token[], { from, to: end }: Range): Statement | undefined {
  const keyword = tokens[from]?.text;
  const to = tokens[end]?.text === ';' ? end + 1 : end;
  switch (keyword) {
    case 'break':
      return tokens[from + 1]?.text === 'if'
        ? { kind: 'break_if', condition: { from: from + 2, to: end }, from, to }
        : { kind: 'break', from, to };
    case 'continue':
      return { kind: 'continue', from, to };
    case 'return':
      return { kind: 'return', value: { from: from + 1, to: end }, from, to };
    case 'const_assert':
      return undefined;
    case 'let':
    case 'var':
    case 'const': {
      const open = tokens[from + 1];
      const name = keyword === 'var' && open?.text === '<' ? open.matchIndex + 1 : from + 1;
      return { kind: 'declare', keyword, name, ...readInitializer(tokens, name + 1, end), from, to };
    }
    default: {
      const range = { from, to: end };
      for (let i = from; i < end; i++) {
        const token = tokens[i];
        if (token && assignmentOperators.has(token.text)) {
          const target = { from, to: i };
          return { kind: 'assign', target, operator: token.text, value: { from: i + 1, to: end }, from, to };
        }
        if (token && token.matchIndex > i) i = token.matchIndex;
      }
      return splitRange(tokens, range).length > 0 ? { kind: 'call', call: range, from, to } : undefined;
    }
  }
}

/** Direct child statements. */
export function childrenOf(statement: Statement): readonly Statement[] {
  switch (statement.kind) {
    case 'block':
    case 'continuing':
    case 'loop':
    case 'while':
      return statement.body;
    case 'for':
      return [...statement.init, ...statement.body, ...statement.update];
    case 'if':
      return statement.branches.flatMap(({ body }) => body);
    case 'switch':
      return statement.cases.flat();
    case 'break':
    case 'continue':
    case 'break_if':
    case 'return':
    case 'declare':
    case 'assign':
    case 'call':
      return [];
  }
}
