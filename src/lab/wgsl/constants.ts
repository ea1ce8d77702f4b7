/** Evaluates constant and override expressions, without a compiler. Supports scalars and some builtin functions. */
import { locationOf, splitRange, type Range, type Token } from './tokens.ts';

/** `int` and `float` are WGSL's abstract numeric types. Booleans are 0 and 1. */
type NumberType = 'bool' | 'i32' | 'u32' | 'f32' | 'f16' | 'int' | 'float';

export interface ConstantValue {
  readonly type: NumberType;
  /** Undefined when it depends on an override without a value. */
  readonly value: number | undefined;
}

/** Looks up a constant or override by name. */
export type ConstantLookup = (name: string) => ConstantValue | undefined;

/** Binary operators, those that bind least first. */
export const precedenceLevels: readonly (readonly string[])[] = [
  ['||'],
  ['&&'],
  ['|'],
  ['^'],
  ['&'],
  ['==', '!='],
  ['<', '>', '<=', '>='],
  ['<<', '>>'],
  ['+', '-'],
  ['*', '/', '%'],
];
const logicalOperators = new Set(['||', '&&', '==', '!=', '<', '>', '<=', '>=']);

/** Returns undefined for unsupported expressions: vectors, arrays, most functions. */
export function evaluateExpression(
  tokens: readonly Token[],
  range: Range,
  lookup: ConstantLookup,
): ConstantValue | undefined {
  let at = range.from;
  const text = (): string | undefined => (at < range.to ? tokens[at]?.text : undefined);

  function binary(level: number): ConstantValue | undefined {
    const operators = precedenceLevels[level];
    if (!operators) return unary();
    let left = binary(level + 1);
    for (
      let operator = text();
      left && operator !== undefined && operators.includes(operator);
      operator = text()
    ) {
      at++;
      const right = binary(level + 1);
      left = right && applyBinary(operator, left, right);
    }
    return left;
  }
  function unary(): ConstantValue | undefined {
    const operator = text();
    if (operator !== '-' && operator !== '!' && operator !== '~') return primary();
    at++;
    const inner = unary();
    if (!inner) return undefined;
    const { type, value } = inner;
    if (value === undefined) return inner;
    if (operator === '-') return { type, value: -value };
    if (operator === '!') return { type, value: value === 0 ? 1 : 0 };
    return { type, value: wrapInteger(type, ~BigInt(value)) };
  }
  function primary(): ConstantValue | undefined {
    const token = tokens[at];
    if (!token || at >= range.to) return undefined;
    at++;
    if (token.kind === 'number') return parseLiteral(token.text);
    if (token.text === '(') {
      const inner = binary(0);
      if (at !== token.matchIndex) return undefined;
      at++;
      return postfixed(inner);
    }
    if (token.kind !== 'name') return undefined;
    if (token.text === 'true' || token.text === 'false') {
      return { type: 'bool', value: token.text === 'true' ? 1 : 0 };
    }
    const open = tokens[at];
    if (open?.text === '(' && at < range.to) {
      const args = splitRange(tokens, { from: at + 1, to: open.matchIndex }).map((arg) =>
        evaluateExpression(tokens, arg, lookup),
      );
      at = open.matchIndex + 1;
      return postfixed(args.every((arg) => arg !== undefined) ? call(token.text, args) : undefined);
    }
    return postfixed(lookup(token.text));
  }
  const postfixed = (value: ConstantValue | undefined): ConstantValue | undefined =>
    text() === '.' || text() === '[' ? undefined : value;

  const result = binary(0);
  return at === range.to ? result : undefined;
}

/** Source text of a range, for messages. */
export function sourceTextOf(source: string, tokens: readonly Token[], range: Range): string {
  const first = tokens[range.from];
  if (!first || range.to <= range.from) return '';
  return source.slice(first.offset, first.offset + locationOf(tokens, range).length);
}

function parseLiteral(text: string): ConstantValue {
  const hex = /^0[xX]([\da-fA-F]*)\.?([\da-fA-F]*)(?:[pP]([+-]?\d+))?([fhiu]?)$/.exec(text);
  if (hex) {
    const [, whole = '', part = '', power, suffix = ''] = hex;
    const value = Number.parseInt(`${whole}${part}` || '0', 16) * 2 ** (Number(power ?? 0) - 4 * part.length);
    return { type: typeOfLiteral(suffix, power !== undefined || text.includes('.')), value };
  }
  const suffix = /[iufh]$/.exec(text)?.[0] ?? '';
  return { type: typeOfLiteral(suffix, /[.eE]/.test(text)), value: Number(text.replace(/[iufh]$/, '')) };
}

function typeOfLiteral(suffix: string, fraction: boolean): NumberType {
  const types: Readonly<Record<string, NumberType>> = { i: 'i32', u: 'u32', f: 'f32', h: 'f16' };
  return types[suffix] ?? (fraction ? 'float' : 'int');
}

function commonType(a: NumberType, b: NumberType): NumberType {
  if (a !== 'int' && a !== 'float') return a;
  if (b !== 'int' && b !== 'float') return b;
  return a === 'float' || b === 'float' ? 'float' : 'int';
}

const isInteger = (type: NumberType): boolean => type === 'int' || type === 'i32' || type === 'u32';

/** Wraps an integer to the range of the type. */
function wrapInteger(type: NumberType, value: bigint): number {
  if (type === 'u32') return Number(BigInt.asUintN(32, value));
  return Number(BigInt.asIntN(type === 'i32' ? 32 : 64, value));
}

function applyBinary(operator: string, left: ConstantValue, right: ConstantValue): ConstantValue {
  const shift = operator === '<<' || operator === '>>';
  const type = shift ? left.type : commonType(left.type, right.type);
  const [a, b] = [left.value, right.value];
  const value = a === undefined || b === undefined ? undefined : computeBinary(operator, type, a, b);
  return { type: logicalOperators.has(operator) ? 'bool' : type, value };
}

function computeBinary(operator: string, type: NumberType, a: number, b: number): number | undefined {
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return isInteger(type) ? (b === 0 ? undefined : Math.trunc(a / b)) : a / b;
    case '%':
      return isInteger(type) && b === 0 ? undefined : a % b;
    case '||':
      return a || b ? 1 : 0;
    case '&&':
      return a && b ? 1 : 0;
    case '==':
      return a === b ? 1 : 0;
    case '!=':
      return a === b ? 0 : 1;
    case '<':
      return a < b ? 1 : 0;
    case '>':
      return a > b ? 1 : 0;
    case '<=':
      return a <= b ? 1 : 0;
    case '>=':
      return a >= b ? 1 : 0;
    default:
      return type === 'bool' || isInteger(type) ? computeBitwise(operator, type, a, b) : undefined;
  }
}

function computeBitwise(operator: string, type: NumberType, a: number, b: number): number | undefined {
  if (!Number.isInteger(a) || !Number.isInteger(b)) return undefined;
  const [x, y] = [BigInt(a), BigInt(b)];
  switch (operator) {
    case '|':
      return wrapInteger(type, x | y);
    case '^':
      return wrapInteger(type, x ^ y);
    case '&':
      return wrapInteger(type, x & y);
    case '<<':
      return b >= 0 && b < 64 ? wrapInteger(type, x << y) : undefined;
    case '>>':
      return b >= 0 && b < 64 ? wrapInteger(type, x >> y) : undefined;
    default:
      return undefined;
  }
}

const castNames: ReadonlySet<string> = new Set(['u32', 'i32', 'f32', 'f16', 'bool']);

const builtinFunctions: ReadonlyMap<string, (...values: number[]) => number> = new Map([
  ['min', (...values) => Math.min(...values)],
  ['max', (...values) => Math.max(...values)],
  ['clamp', (value = 0, low = 0, high = 0) => Math.min(Math.max(value, low), high)],
  ['abs', (value = 0) => Math.abs(value)],
  ['ceil', (value = 0) => Math.ceil(value)],
  ['floor', (value = 0) => Math.floor(value)],
  ['select', (no = 0, yes = 0, condition = 0) => (condition === 0 ? no : yes)],
  ['firstLeadingBit', (value = 0) => 31 - Math.clz32(value)],
  ['countTrailingZeros', (value = 0) => (value === 0 ? 32 : 31 - Math.clz32(value & -value))],
]);

function call(name: string, args: readonly ConstantValue[]): ConstantValue | undefined {
  const numbers = args.flatMap(({ value }) => (value === undefined ? [] : [value]));
  const areAllKnown = numbers.length === args.length;
  if (castNames.has(name) && args.length === 1) {
    const type = name as NumberType;
    const [value] = numbers;
    if (!areAllKnown || value === undefined) return { type, value: undefined };
    if (type === 'bool') return { type, value: value === 0 ? 0 : 1 };
    return { type, value: isInteger(type) ? wrapInteger(type, BigInt(Math.trunc(value))) : value };
  }
  const apply = builtinFunctions.get(name);
  if (!apply || args.length === 0) return undefined;
  const type = args
    .slice(0, name === 'select' ? 2 : undefined)
    .reduce<NumberType>((all, arg) => commonType(all, arg.type), 'int');
  return { type, value: areAllKnown ? apply(...numbers) : undefined };
}
