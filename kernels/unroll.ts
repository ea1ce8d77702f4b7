/**
 * Unrolls loops in the text of a shader. Drivers keep an array in registers only if all its indices are constants, and not
 * every driver unrolls nested loops; in memory, an access takes many times as long. (NVIDIA, driver 580: attention of one
 * token took 39 us with loops, measured 2026-11-27.)
 */

const directive = /^\s*\/\/#unroll\s*$/;
const loopHeader = /^\s*for \(var (\w+) = 0u; \1 < (.+); \1\+\+\) \{\s*$/;

/** Values of the integer constants of a shader: those of the variant, and `const NAME = expression;` at the top level. */
export function constantsOf(
  parts: readonly string[],
  variant: Readonly<Record<string, number | boolean | string>>,
): ReadonlyMap<string, number> {
  const constants = new Map<string, number>();
  for (const [name, value] of Object.entries(variant))
    if (typeof value === 'number') constants.set(name, value);
  for (const part of parts) {
    for (const [, name = '', expression = ''] of part.matchAll(/^const (\w+) = ([^;]+);/gm)) {
      const value = evaluate(expression, constants);
      if (value !== undefined) constants.set(name, value);
    }
  }
  return constants;
}

/**
 * Replaces each loop below an `//#unroll` by copies of its body, each with the loop variable as a constant. The copies are
 * on the line of the directive, so that the numbers of the other lines stay. Loops inside are unrolled first.
 * @param path of the source, for errors
 * @throws Error when the next line is not such a loop, or its bound is not constant
 */
export function unrollLoops(text: string, constants: ReadonlyMap<string, number>, path = 'a shader'): string {
  const fail = (at: number, why: string) => new Error(`${path}:${at + 1}: ${why}`);
  const lines = text.split('\n');
  for (let at = lines.length - 1; at >= 0; at--) {
    if (!directive.test(lines[at] ?? '')) continue;
    const header = loopHeader.exec(lines[at + 1] ?? '');
    if (!header) throw fail(at + 1, `//#unroll needs 'for (var i = 0u; i < N; i++) {' on the next line`);
    const [, name = '', bound = ''] = header;
    const count = evaluate(bound, constants);
    if (count === undefined) throw fail(at + 1, `the loop's bound '${bound}' is not constant`);
    const end = endOfBlock(lines, at + 1);
    if (end === undefined) throw fail(at + 1, 'the loop has no end');
    const body = lines
      .slice(at + 2, end)
      .map((line) => line.replace(/\/\/.*$/, '').trim())
      .filter((line) => line !== '')
      .join(' ');
    lines[at] = Array.from({ length: count }, (_, value) => `{ const ${name} = ${value}u; ${body} }`).join(
      ' ',
    );
    lines.fill('', at + 1, end + 1);
  }
  return lines.join('\n');
}

/** The line that closes the block that `lines[start]` opens; undefined if there is none. */
function endOfBlock(lines: readonly string[], start: number): number | undefined {
  let depth = 0;
  for (let at = start; at < lines.length; at++) {
    const code = (lines[at] ?? '').replace(/\/\/.*$/, '');
    depth += code.split('{').length - code.split('}').length;
    if (depth === 0) return at;
  }
  return undefined;
}

/** Value of an expression of integers, constants, `+ - * / %`, `max`, `min` and parentheses; undefined for others. */
function evaluate(expression: string, constants: ReadonlyMap<string, number>): number | undefined {
  const tokens = expression.match(/\d+u?|\w+|[-+*/%(),]|\S/g) ?? [];
  let at = 0;
  const primary = (): number => {
    const token = tokens[at++] ?? '';
    if (/^\d+u?$/.test(token)) return Number.parseInt(token, 10);
    if (token === '(') {
      const value = sum();
      return tokens[at++] === ')' ? value : Number.NaN;
    }
    if (token === 'max' || token === 'min') {
      if (tokens[at++] !== '(') return Number.NaN;
      const left = sum();
      if (tokens[at++] !== ',') return Number.NaN;
      const right = sum();
      return tokens[at++] === ')' ? Math[token](left, right) : Number.NaN;
    }
    return constants.get(token) ?? Number.NaN;
  };
  const product = (): number => {
    let value = primary();
    for (let sign = tokens[at]; sign === '*' || sign === '/' || sign === '%'; sign = tokens[at]) {
      at++;
      const right = primary();
      value = sign === '*' ? value * right : sign === '/' ? Math.floor(value / right) : value % right;
    }
    return value;
  };
  const sum = (): number => {
    let value = product();
    for (let sign = tokens[at]; sign === '+' || sign === '-'; sign = tokens[at]) {
      at++;
      value = sign === '+' ? value + product() : value - product();
    }
    return value;
  };
  const value = sum();
  return at === tokens.length && Number.isInteger(value) ? value : undefined;
}
