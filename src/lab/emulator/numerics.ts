/** Arithmetic of WGSL's numeric types, as JavaScript source. */
import type { ElementName } from './value-types.ts';

/** Rounds `code` to a type; integers wrap. `code` has the exact or the double-precision result. */
export function rounded(element: ElementName, code: string): string {
  switch (element) {
    case 'f32':
      return `fr(${code})`;
    case 'f16':
      return `hr(${code})`;
    case 'u32':
      return `((${code}) >>> 0)`;
    case 'i32':
      return `((${code}) | 0)`;
    default:
      return code;
  }
}

const comparisons: Readonly<Record<string, string>> = {
  '==': '===',
  '!=': '!==',
  '<': '<',
  '>': '>',
  '<=': '<=',
  '>=': '>=',
};
export const isComparison = (operator: string): boolean => operator in comparisons;

/** Whether source is a number, and a power of two that a 32-bit integer has without its sign. */
const isPowerOfTwo = (code: string): boolean =>
  /^\d+$/.test(code) && [...Array(31).keys()].includes(Math.log2(Number(code)));

/** `a operator b` for two values of a type. */
export function binaryCode(operator: string, element: ElementName, a: string, b: string): string {
  const comparison = comparisons[operator];
  if (comparison !== undefined) return `(${a} ${comparison} ${b})`;
  if (element === 'bool') return operator === '&' ? `!!(${a} & ${b})` : `!!(${a} ${operator} ${b})`;
  const isInteger = element === 'u32' || element === 'i32';
  switch (operator) {
    case '*':
      return isInteger
        ? `(${rounded(element, `Math.imul(${a}, ${b})`)})`
        : `(${rounded(element, `${a} * ${b}`)})`;
    case '/':
      if (element === 'u32' && isPowerOfTwo(b)) return `(${a} >>> ${Math.log2(Number(b))})`;
      return isInteger ? `R.divide_${element}(${a}, ${b})` : rounded(element, `${a} / ${b}`);
    case '%':
      if (element === 'u32' && isPowerOfTwo(b)) return `(${a} & ${Number(b) - 1})`;
      return isInteger ? `R.remainder_${element}(${a}, ${b})` : rounded(element, `${a} % ${b}`);
    case '>>':
      return element === 'u32' ? `(${a} >>> (${b} & 31))` : `(${a} >> (${b} & 31))`;
    case '<<':
      return `(${rounded(element, `${a} << (${b} & 31)`)})`;
    default:
      return `(${rounded(element, `${a} ${operator} ${b}`)})`;
  }
}

export function unaryCode(operator: string, element: ElementName, a: string): string {
  if (operator === '!') return `!${a}`;
  if (operator === '~') return `(${rounded(element, `~${a}`)})`;
  return element === 'i32' ? `(-${a} | 0)` : `(-${a})`;
}

/** Value of `a operator b` for abstract numbers; undefined if the operator has no such value. */
export function foldAbstract(
  operator: string,
  element: 'int' | 'float',
  a: number,
  b: number,
): number | boolean | undefined {
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return element === 'int' ? Math.trunc(a / b) : a / b;
    case '%':
      return a % b;
    case '<<':
      return a * 2 ** b;
    case '>>':
      return Math.floor(a / 2 ** b);
    case '&':
      return Number(BigInt(a) & BigInt(b));
    case '|':
      return Number(BigInt(a) | BigInt(b));
    case '^':
      return Number(BigInt(a) ^ BigInt(b));
    case '==':
      return a === b;
    case '!=':
      return a !== b;
    case '<':
      return a < b;
    case '>':
      return a > b;
    case '<=':
      return a <= b;
    case '>=':
      return a >= b;
    default:
      return undefined;
  }
}

/** `a operator b` for two constants of an integer type. */
export function foldInteger(
  operator: string,
  element: 'u32' | 'i32',
  a: number,
  b: number,
): number | boolean | undefined {
  const wrap = (value: number): number => (element === 'u32' ? value >>> 0 : value | 0);
  switch (operator) {
    case '*':
      return wrap(Math.imul(a, b));
    case '/':
      return b === 0 ? a : wrap(Math.trunc(a / b));
    case '%':
      return b === 0 ? 0 : wrap(a % b);
    case '&':
      return wrap(a & b);
    case '|':
      return wrap(a | b);
    case '^':
      return wrap(a ^ b);
    case '+':
    case '-':
      return wrap(operator === '+' ? a + b : a - b);
    default:
      return isComparison(operator) ? foldAbstract(operator, 'int', a, b) : undefined;
  }
}

/** Converts a number between types; integers from floats truncate and saturate. */
export function convertCode(from: ElementName, to: ElementName, code: string): string {
  if (from === to) return code;
  const isFloat = from === 'f32' || from === 'f16' || from === 'float';
  switch (to) {
    case 'bool':
      return `(${code} !== 0)`;
    case 'f32':
      return from === 'bool' ? `(${code} ? 1 : 0)` : from === 'f16' ? code : `fr(${code})`;
    case 'f16':
      return from === 'bool' ? `(${code} ? 1 : 0)` : `hr(${code})`;
    case 'u32':
      return from === 'bool' ? `(${code} ? 1 : 0)` : isFloat ? `R.truncate_u32(${code})` : `(${code} >>> 0)`;
    case 'i32':
      return from === 'bool' ? `(${code} ? 1 : 0)` : isFloat ? `R.truncate_i32(${code})` : `(${code} | 0)`;
    default:
      return code;
  }
}
