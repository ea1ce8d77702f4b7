/** Parser of arithmetic expressions over named numbers, for dispatch sizes, FLOP counts and byte counts of kernels. */

export interface CompiledExpression {
  /** The distinct names, in order of first use. */
  readonly names: readonly string[];
  /** Throws `ExpressionError` when a name has no number. */
  evaluate(values: Readonly<Record<string, number>>): number;
}

/** What expressions may contain, for the documents. */
export const expressionGrammar =
  'An expression has numbers, names of dims and overrides, + - * / %, parentheses, and the functions ceil(x), floor(x), min(a, ...) and max(a, ...).';

/** `position` counts UTF-16 characters from 0. */
export class ExpressionError extends Error {
  readonly position: number;
  readonly length: number;
  constructor(message: string, position: number, length: number) {
    super(message);
    this.name = 'ExpressionError';
    this.position = position;
    this.length = length;
  }
}

type Values = Readonly<Record<string, number>>;
type Evaluator = (values: Values) => number;

/** In characters. This also limits the nesting depth. */
const maxLength = 1000;

const functions: ReadonlyMap<
  string,
  { readonly isUnary: boolean; readonly apply: (a: number, b: number) => number }
> = new Map([
  ['ceil', { isUnary: true, apply: (a) => Math.ceil(a) }],
  ['floor', { isUnary: true, apply: (a) => Math.floor(a) }],
  ['min', { isUnary: false, apply: (a, b) => Math.min(a, b) }],
  ['max', { isUnary: false, apply: (a, b) => Math.max(a, b) }],
]);

interface Token {
  readonly text: string;
  readonly position: number;
}

function tokenize(text: string): Token[] {
  const pattern = /\s+|(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w)|\.\d+(?!\w)|[A-Za-z_]\w*|[-+*/%(),])/y;
  const tokens: Token[] = [];
  while (pattern.lastIndex < text.length) {
    const position = pattern.lastIndex;
    const match = pattern.exec(text);
    if (!match) {
      const wrong = /^[\w.]+|^./su.exec(text.slice(position))?.[0] ?? '';
      const definition = 'numbers, names, + - * / % ( ) , ceil floor min max';
      throw new ExpressionError(`unexpected '${wrong}' (known: ${definition})`, position, wrong.length);
    }
    if (match[1] !== undefined) tokens.push({ text: match[1], position });
  }
  return tokens;
}

/**
 * Parses numbers, names, `+ - * / %`, parentheses, `ceil(x)`, `floor(x)`, `min(a, ...)` and `max(a, ...)`. Division
 * is not rounded. Throws `ExpressionError`.
 */
export function compileExpression(text: string): CompiledExpression {
  if (text.length > maxLength) {
    throw new ExpressionError(`at most ${maxLength} characters expected, got ${text.length}`, 0, text.length);
  }
  const tokens = tokenize(text);
  const names = new Set<string>();
  let index = 0;

  const unexpected = (what: string): ExpressionError => {
    const token = tokens[index];
    return token
      ? new ExpressionError(`expected ${what}, got '${token.text}'`, token.position, token.text.length)
      : new ExpressionError(`expected ${what}, got the end`, text.length, 0);
  };
  const accept = (...texts: string[]): string | undefined => {
    const found = tokens[index]?.text;
    if (found === undefined || !texts.includes(found)) return undefined;
    index++;
    return found;
  };
  const expect = (expectedText: string): void => {
    if (accept(expectedText) === undefined) throw unexpected(`'${expectedText}'`);
  };

  function sum(): Evaluator {
    let left = product();
    for (let operator = accept('+', '-'); operator !== undefined; operator = accept('+', '-')) {
      const [a, b] = [left, product()];
      left = operator === '+' ? (values) => a(values) + b(values) : (values) => a(values) - b(values);
    }
    return left;
  }
  function product(): Evaluator {
    let left = unary();
    for (let operator = accept('*', '/', '%'); operator !== undefined; operator = accept('*', '/', '%')) {
      const [a, b] = [left, unary()];
      if (operator === '*') left = (values) => a(values) * b(values);
      else if (operator === '/') left = (values) => a(values) / b(values);
      else left = (values) => a(values) % b(values);
    }
    return left;
  }
  function unary(): Evaluator {
    if (accept('-') !== undefined) {
      const value = unary();
      return (values) => -value(values);
    }
    return accept('+') === undefined ? primary() : unary();
  }
  function primary(): Evaluator {
    const token = tokens[index];
    if (!token) throw unexpected('a number, a name or (');
    if (accept('(') !== undefined) {
      const inner = sum();
      expect(')');
      return inner;
    }
    if (/^[.\d]/.test(token.text)) {
      index++;
      const number = Number(token.text);
      return () => number;
    }
    if (!/^\w/.test(token.text)) throw unexpected('a number, a name or (');
    index++;
    if (tokens[index]?.text === '(') return call(token);
    const { text: name, position } = token;
    names.add(name);
    return (values) => {
      const value: unknown = values[name];
      if (typeof value === 'number') return value;
      throw new ExpressionError(`'${name}' has no value`, position, name.length);
    };
  }
  function call({ text: name, position }: Token): Evaluator {
    const definition = functions.get(name);
    if (!definition) {
      const list = [...functions.keys()].join(', ');
      throw new ExpressionError(`unknown function '${name}' (known: ${list})`, position, name.length);
    }
    expect('(');
    let value = sum();
    const { isUnary, apply } = definition;
    if (isUnary) {
      const argument = value;
      value = (values) => apply(argument(values), 0);
    } else {
      while (accept(',') !== undefined) {
        const [a, b] = [value, sum()];
        value = (values) => apply(a(values), b(values));
      }
    }
    expect(')');
    return value;
  }

  const evaluate = sum();
  if (index < tokens.length) throw unexpected('an operator or the end');
  return { names: [...names], evaluate };
}
