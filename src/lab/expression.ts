/** Parser of arithmetic expressions over named numbers, for dispatch sizes, FLOP counts and byte counts of kernels. */

export interface CompiledExpression {
  /** The distinct names, in order of first use. */
  readonly names: readonly string[];
  /** Throws `ExpressionError` when a name has no number. */
  evaluate(values: Readonly<Record<string, number>>): number;
}

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
type Node = (values: Values) => number;

/** In characters. This also limits the nesting depth. */
const maxLength = 1000;

const functions: ReadonlyMap<
  string,
  { readonly one: boolean; readonly of: (a: number, b: number) => number }
> = new Map([
  ['ceil', { one: true, of: (a) => Math.ceil(a) }],
  ['floor', { one: true, of: (a) => Math.floor(a) }],
  ['min', { one: false, of: (a, b) => Math.min(a, b) }],
  ['max', { one: false, of: (a, b) => Math.max(a, b) }],
]);

interface Piece {
  readonly text: string;
  readonly position: number;
}

function piecesOf(text: string): Piece[] {
  const pattern = /\s+|(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w)|\.\d+(?!\w)|[A-Za-z_]\w*|[-+*/%(),])/y;
  const pieces: Piece[] = [];
  while (pattern.lastIndex < text.length) {
    const position = pattern.lastIndex;
    const match = pattern.exec(text);
    if (!match) {
      const wrong = /^[\w.]+|^./su.exec(text.slice(position))?.[0] ?? '';
      const known = 'numbers, names, + - * / % ( ) , ceil floor min max';
      throw new ExpressionError(`unexpected '${wrong}' (known: ${known})`, position, wrong.length);
    }
    if (match[1] !== undefined) pieces.push({ text: match[1], position });
  }
  return pieces;
}

/**
 * Parses numbers, names, `+ - * / %`, parentheses, `ceil(x)`, `floor(x)`, `min(a, ...)` and `max(a, ...)`. Division
 * is not rounded. Throws `ExpressionError`.
 */
export function compileExpression(text: string): CompiledExpression {
  if (text.length > maxLength) {
    throw new ExpressionError(`at most ${maxLength} characters expected, got ${text.length}`, 0, text.length);
  }
  const pieces = piecesOf(text);
  const names = new Set<string>();
  let at = 0;

  const unexpected = (what: string): ExpressionError => {
    const piece = pieces[at];
    return piece
      ? new ExpressionError(`expected ${what}, got '${piece.text}'`, piece.position, piece.text.length)
      : new ExpressionError(`expected ${what}, got the end`, text.length, 0);
  };
  const accept = (...texts: string[]): string | undefined => {
    const found = pieces[at]?.text;
    if (found === undefined || !texts.includes(found)) return undefined;
    at++;
    return found;
  };
  const expect = (wanted: string): void => {
    if (accept(wanted) === undefined) throw unexpected(`'${wanted}'`);
  };

  function sum(): Node {
    let left = product();
    for (let verb = accept('+', '-'); verb !== undefined; verb = accept('+', '-')) {
      const [a, b] = [left, product()];
      left = verb === '+' ? (values) => a(values) + b(values) : (values) => a(values) - b(values);
    }
    return left;
  }
  function product(): Node {
    let left = unary();
    for (let verb = accept('*', '/', '%'); verb !== undefined; verb = accept('*', '/', '%')) {
      const [a, b] = [left, unary()];
      if (verb === '*') left = (values) => a(values) * b(values);
      else if (verb === '/') left = (values) => a(values) / b(values);
      else left = (values) => a(values) % b(values);
    }
    return left;
  }
  function unary(): Node {
    if (accept('-') !== undefined) {
      const value = unary();
      return (values) => -value(values);
    }
    return accept('+') === undefined ? primary() : unary();
  }
  function primary(): Node {
    const piece = pieces[at];
    if (!piece) throw unexpected('a number, a name or (');
    if (accept('(') !== undefined) {
      const inner = sum();
      expect(')');
      return inner;
    }
    if (/^[.\d]/.test(piece.text)) {
      at++;
      const number = Number(piece.text);
      return () => number;
    }
    if (!/^\w/.test(piece.text)) throw unexpected('a number, a name or (');
    at++;
    if (pieces[at]?.text === '(') return call(piece);
    const { text: name, position } = piece;
    names.add(name);
    return (values) => {
      const value: unknown = values[name];
      if (typeof value === 'number') return value;
      throw new ExpressionError(`'${name}' has no value`, position, name.length);
    };
  }
  function call({ text: name, position }: Piece): Node {
    const known = functions.get(name);
    if (!known) {
      const list = [...functions.keys()].join(', ');
      throw new ExpressionError(`unknown function '${name}' (known: ${list})`, position, name.length);
    }
    expect('(');
    let value = sum();
    const { one, of } = known;
    if (one) {
      const only = value;
      value = (values) => of(only(values), 0);
    } else {
      while (accept(',') !== undefined) {
        const [a, b] = [value, sum()];
        value = (values) => of(a(values), b(values));
      }
    }
    expect(')');
    return value;
  }

  const evaluate = sum();
  if (at < pieces.length) throw unexpected('an operator or the end');
  return { names: [...names], evaluate };
}
