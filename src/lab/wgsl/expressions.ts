/** Parses expressions to trees. */
import { precedenceLevels } from './constants.ts';
import { splitRange, type Range, type Token } from './tokens.ts';

export interface Expression extends Range {
  readonly kind: 'number' | 'name' | 'unary' | 'binary' | 'call' | 'index' | 'member' | 'other';
  /** Operator, name, literal, name of a member, or name of the function or type that is called. */
  readonly text: string;
  /** Operands or arguments; the base comes first. */
  readonly parts: readonly Expression[];
  /** Template arguments of a call as written: `u32` of `bitcast<u32>(x)`. */
  readonly template?: string;
}

const levelOf = new Map(
  precedenceLevels.flatMap((operators, level) => operators.map((one) => [one, level] as const)),
);
const unaryOperators: ReadonlySet<string> = new Set(['-', '!', '~', '&', '*']);

/** Expects source that Tint accepts, which limits the depth. For other source, the tree ends early. */
export function parseExpression(tokens: readonly Token[], range: Range): Expression | undefined {
  let at = range.from;
  const peek = (): Token | undefined => (at < range.to ? tokens[at] : undefined);

  /** An operand and what follows with operators of at least this level. */
  function binary(least: number): Expression | undefined {
    let left = unary();
    for (let token = peek(); left && token?.kind === 'symbol'; token = peek()) {
      const level = levelOf.get(token.text);
      if (level === undefined || level < least || token.matchIndex >= 0) break;
      at++;
      const right = binary(level + 1);
      if (!right) return left;
      left = { kind: 'binary', text: token.text, parts: [left, right], from: left.from, to: right.to };
    }
    return left;
  }
  function unary(): Expression | undefined {
    const operators: { text: string; from: number }[] = [];
    for (let token = peek(); token && unaryOperators.has(token.text); token = peek()) {
      operators.push({ text: token.text, from: at });
      at++;
    }
    let inner = primary();
    for (const { text, from } of operators.reverse())
      if (inner) inner = { kind: 'unary', text, parts: [inner], from, to: inner.to };
    return inner;
  }
  function primary(): Expression | undefined {
    const token = peek();
    if (!token) return undefined;
    const from = at;
    at++;
    if (token.kind === 'number') return { kind: 'number', text: token.text, parts: [], from, to: at };
    if (token.text === '(' && token.matchIndex > from) {
      const inner = parseExpression(tokens, { from: at, to: token.matchIndex });
      at = token.matchIndex + 1;
      return inner && postfixed({ ...inner, from, to: at });
    }
    if (token.kind !== 'name') return undefined;
    const open = peek();
    let template: string | undefined;
    if (open?.text === '<' && open.matchIndex > at) {
      template = tokens
        .slice(at + 1, open.matchIndex)
        .map(({ text }) => text)
        .join('');
      at = open.matchIndex + 1;
    }
    const call = peek();
    if (call?.text !== '(' || call.matchIndex <= at)
      return postfixed({ kind: 'name', text: token.text, parts: [], from, to: at });
    const parts = splitRange(tokens, { from: at + 1, to: call.matchIndex }).map(
      (part): Expression => parseExpression(tokens, part) ?? { kind: 'other', text: '', parts: [], ...part },
    );
    at = call.matchIndex + 1;
    return postfixed({
      kind: 'call',
      text: token.text,
      parts,
      from,
      to: at,
      ...(template !== undefined && { template }),
    });
  }
  function postfixed(inner: Expression): Expression {
    let base = inner;
    for (let token = peek(); token; token = peek()) {
      const { from } = base;
      if (token.text === '.') {
        const text = tokens[at + 1]?.text ?? '';
        at += 2;
        base = { kind: 'member', text, parts: [base], from, to: at };
      } else if (token.text === '[' && token.matchIndex > at) {
        const index = parseExpression(tokens, { from: at + 1, to: token.matchIndex });
        at = token.matchIndex + 1;
        base = { kind: 'index', text: '', parts: index ? [base, index] : [base], from, to: at };
      } else break;
    }
    return base;
  }
  return binary(0);
}
