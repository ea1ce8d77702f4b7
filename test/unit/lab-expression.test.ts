import { describe, expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import { compileExpression, ExpressionError } from '../../src/lab/expression.ts';

const value = (text: string, values: Record<string, number> = {}) => compileExpression(text).evaluate(values);

/** Message, position and length of the error. */
function errorOf(text: string): [string, number, number] {
  try {
    compileExpression(text);
  } catch (error) {
    if (error instanceof ExpressionError) return [error.message, error.position, error.length];
    throw error;
  }
  throw new Error(`'${text}' is accepted`);
}

describe('expressions', () => {
  it.each<[string, number]>([
    ['1 + 2 * 3', 7],
    ['(1 + 2) * 3', 9],
    ['7 - 2 - 1', 4],
    ['24 / 4 / 3', 2],
    ['7 / 2', 3.5],
    ['7 % 4 * 2', 6],
    ['-3 + +5', 2],
    ['- -3', 3],
    ['2 * -3', -6],
    ['ceil(7 / 2)', 4],
    ['floor(7/2)', 3],
    ['min(3, 1, 2)', 1],
    ['max(3, ceil(4.5), 2)', 5],
    ['1.5e3 + .5', 1500.5],
    ['\t1\n+ 1 ', 2],
  ])('%s is %d', (text, expected) => {
    expect(value(text)).toBe(expected);
  });

  it('names have numeric values, and are listed once', () => {
    const compiled = compileExpression('ceil(rows / ROWS) + rows * _a1');
    expect(compiled.names).toEqual(['rows', 'ROWS', '_a1']);
    expect(compiled.evaluate({ rows: 7, ROWS: 2, _a1: 10 })).toBe(74);
    expect(compiled.evaluate({ rows: 8, ROWS: 2, _a1: 0 })).toBe(4);
  });

  it('a name without a value is an error of evaluate, also for names of built-in object members', () => {
    expect(() => value('1 + rows')).toThrow("'rows' has no value");
    expect(() => value('toString')).toThrow("'toString' has no value");
    expect(() => value('__proto__')).toThrow("'__proto__' has no value");
  });

  it.each<[string, string, number, number]>([
    ['', 'expected a number, a name or (, got the end', 0, 0],
    ['1 +', 'expected a number, a name or (, got the end', 3, 0],
    ['1 2', "expected an operator or the end, got '2'", 2, 1],
    ['(1 + 2', "expected ')', got the end", 6, 0],
    ['1 + 2)', "expected an operator or the end, got ')'", 5, 1],
    ['a * / b', "expected a number, a name or (, got '/'", 4, 1],
    ['ceil(1, 2)', "expected ')', got ','", 6, 1],
    ['min()', "expected a number, a name or (, got ')'", 4, 1],
    ['sqrt(2)', "unknown function 'sqrt' (known: ceil, floor, min, max)", 0, 4],
  ])("'%s' is refused", (text, message, position, length) => {
    expect(errorOf(text)).toEqual([message, position, length]);
  });

  it.each<[string, number, number]>([
    ['rows * 4u', 7, 2],
    ['0x10', 0, 4],
    ['a * b;', 5, 1],
    ['a[0]', 1, 1],
    ["x => 'y'", 2, 1],
    ['zählen(1)', 1, 1],
  ])("'%s' has a character that is not known", (text, position, length) => {
    expect(errorOf(text).slice(1)).toEqual([position, length]);
  });

  it('long ones are rejected, which limits nesting', () => {
    expect(errorOf('('.repeat(1001))[0]).toBe('at most 1000 characters expected, got 1001');
    expect(value(`${'('.repeat(499)}1${')'.repeat(499)}`)).toBe(1);
  });

  it('the expressions of every op use only its dims, and overrides in dispatch', () => {
    for (const { op, dims, dispatch, flops, bytes } of contracts.values()) {
      const values = Object.fromEntries([...dims.map(({ name }) => [name, 64]), ['WG', 32], ['ROWS', 4]]);
      for (const text of [...Object.values(dispatch), flops, bytes]) {
        expect(value(text, values), `${op}: ${text}`).toBeGreaterThanOrEqual(0);
      }
      for (const text of [flops, bytes]) {
        const known = dims.map(({ name }) => name);
        expect(known, `${op}: ${text}`).toEqual(expect.arrayContaining([...compileExpression(text).names]));
      }
    }
  });
});
