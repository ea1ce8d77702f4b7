import { type CodePoints, complement, intersection } from '../ebnf/code-points.ts';
import {
  choice,
  empty,
  type Expression,
  oneOf,
  optional,
  range,
  repeat,
  rule,
  sequence,
  set,
  text,
} from '../ebnf/expression.ts';
import type { GrammarBuilder } from '../ebnf/grammar-builder.ts';

const digit = range('0', '9');
const hex: Expression = set([
  [0x30, 0x39],
  [0x41, 0x46],
  [0x61, 0x66],
]);

/** Characters that must be escaped in JSON strings. */
const escapedCharacters: CodePoints = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];
const unescapedCharacters = complement(escapedCharacters);
const shortEscapes = new Map([
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
  [0x22, '"'],
  [0x5c, '\\'],
]);

/** One character of a set as written in a JSON string. */
export function toStringCharacter(characters: CodePoints): Expression {
  const options: Expression[] = [];
  const unescaped = intersection(characters, unescapedCharacters);
  if (unescaped.length > 0) options.push(set(unescaped));
  for (const [first, last] of intersection(characters, escapedCharacters)) {
    for (let code = first; code <= last; code++) {
      const shortEscape = shortEscapes.get(code);
      options.push(
        text(shortEscape === undefined ? `\\u${code.toString(16).padStart(4, '0')}` : `\\${shortEscape}`),
      );
    }
  }
  return choice(...options);
}

/** Converts an expression to its form inside a JSON string. */
export function toStringContent(expression: Expression): Expression {
  switch (expression.kind) {
    case 'text':
      return text(JSON.stringify(expression.text).slice(1, -1));
    case 'set':
      return toStringCharacter(expression.set);
    case 'sequence':
      return sequence(...expression.parts.map(toStringContent));
    case 'choice':
      return choice(...expression.options.map(toStringContent));
    case 'repeat':
      return { ...expression, of: toStringContent(expression.of) };
    case 'rule':
    case 'mark':
    case 'free':
      throw new Error(`a pattern has no ${expression.kind}`);
  }
}

/** Limit of indentation, so that a weak model cannot write white space endlessly. */
const maxIndent = 48;

/** Any character of a JSON string. */
export const jsonCharacter: Expression = choice(set(unescapedCharacters), rule('escape'));

/** Adds the rules of JSON syntax under fixed names. */
export function addJsonRules(builder: GrammarBuilder): void {
  const define = (name: string, expression: Expression) => builder.define(name, expression);
  define(
    'ws',
    choice(empty, text(' '), sequence(optional(text('\r')), text('\n'), repeat(oneOf(' \t'), 0, maxIndent))),
  );
  define('comma', sequence(text(','), rule('ws')));
  define('colon', sequence(text(':'), rule('ws')));
  // Exclude lone surrogates, which are not valid text.
  const unicode = choice(
    sequence(
      set([
        [0x30, 0x39],
        [0x41, 0x43],
        [0x45, 0x46],
        [0x61, 0x63],
        [0x65, 0x66],
      ]),
      hex,
      hex,
      hex,
    ),
    sequence(oneOf('dD'), range('0', '7'), hex, hex),
  );
  define('escape', sequence(text('\\'), choice(oneOf('"\\/bfnrt'), sequence(text('u'), unicode))));
  define('rest_of_string', choice(text('"'), sequence(jsonCharacter, rule('rest_of_string'))));
  define('string', sequence(text('"'), rule('rest_of_string')));
  define('integer', sequence(optional(text('-')), rule('natural')));
  define('natural', choice(text('0'), sequence(range('1', '9'), repeat(digit, 0, 18))));
  define(
    'number',
    sequence(
      rule('integer'),
      optional(sequence(text('.'), repeat(digit, 1, 20))),
      // Limit the exponent: larger numbers exceed the range of a double.
      optional(sequence(oneOf('eE'), optional(oneOf('+-')), repeat(digit, 1, 2))),
    ),
  );
  define('boolean', choice(text('true'), text('false')));
  define('null', text('null'));
  define(
    'value',
    choice(rule('object'), rule('array'), rule('string'), rule('number'), rule('boolean'), rule('null')),
  );
  define('member', sequence(rule('string'), rule('colon'), rule('value')));
  define('object', objectBraces(commaSeparated(rule('member'))));
  define('array', arrayBrackets(commaSeparated(rule('value'))));
}

const commaSeparated = (item: Expression): Expression =>
  optional(sequence(item, repeat(sequence(rule('comma'), item), 0)));

export const objectBraces = (content: Expression): Expression =>
  sequence(text('{'), rule('ws'), content, rule('ws'), text('}'));
export const arrayBrackets = (content: Expression): Expression => sequence(arrayStart, content, arrayEnd);
export const arrayStart: Expression = sequence(text('['), rule('ws'));
export const arrayEnd: Expression = sequence(rule('ws'), text(']'));

/** The JSON text of a value, with optional white space. */
export function valueLiteral(value: unknown): Expression {
  if (Array.isArray(value)) {
    return arrayBrackets(
      sequence(...value.flatMap((one, index) => [index > 0 ? rule('comma') : empty, valueLiteral(one)])),
    );
  }
  if (value !== null && typeof value === 'object') {
    return objectBraces(
      sequence(
        ...Object.entries(value).flatMap(([name, one], index) => [
          index > 0 ? rule('comma') : empty,
          text(JSON.stringify(name)),
          rule('colon'),
          valueLiteral(one),
        ]),
      ),
    );
  }
  return text(JSON.stringify(value));
}
