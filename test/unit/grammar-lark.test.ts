import { describe, expect, test } from 'vitest';
import { larkToRegex } from '../../src/grammar/lark/to-regex.ts';
import { translateToXGrammar } from '../../src/grammar/translate.ts';

const matcher = (source: string) => {
  const pattern = `^(?:${larkToRegex(source)})$`;
  // The engine's own reader must take it, too.
  translateToXGrammar({ kind: 'regex', pattern }, { allowLengthMarks: true });
  const regex = new RegExp(pattern, 'u');
  return (text: string) => regex.test(text);
};

describe('a Lark grammar as a regular expression', () => {
  test('rules, terminals, alternatives, repetitions, aliases and imports', () => {
    const accepts = matcher(`
      // Sums of products.
      start: expr
      ?expr: term (SP ADD SP term)* -> add
           | "none"
      term: factor (SP MUL SP factor)~0..1
      factor: INT | "(" INT ")"
      SP: " "
      ADD: "+"
      MUL: /[*]/
      %import common.INT
    `);
    for (const text of ['1', '12 + 3', '(4) * 5 + 6', 'none'])
      expect([text, accepts(text)]).toEqual([text, true]);
    for (const text of ['', '1+2', '1 * 2 * 3', '1 +', 'None'])
      expect([text, accepts(text)]).toEqual([text, false]);
  });

  test('strings with escapes and without case, ranges, optional parts, counts, priorities', () => {
    const accepts = matcher(
      'start.2: "se\\"l"i ["\\u00e9" | "\\t"] LETTERS~2 HEX+\nLETTERS: "a".."c"\nHEX: /[0-9a-f]/ | "."',
    );
    for (const text of ['SE"lab0', 'se"Lébc.f', 'sE"l\tcc9'])
      expect([text, accepts(text)]).toEqual([text, true]);
    for (const text of ['se"la0', 'se"ladd0', 'selab0', 'se"lab'])
      expect([text, accepts(text)]).toEqual([text, false]);
  });

  test('what is ignored may stand between terminals, not within them', () => {
    const accepts = matcher(
      'start: NAME "=" NUMBER\nNAME: LETTER LETTER\n%import common (LETTER, NUMBER)\n%ignore " "',
    );
    for (const text of ['ab=1', ' ab  = 1.5 ']) expect([text, accepts(text)]).toEqual([text, true]);
    expect(accepts('a b=1')).toBe(false);
  });

  test.each([
    ['start: a\na: "(" a ")" | "x"', "line 2 of the Lark grammar: the rule 'a' uses itself"],
    ['start: b', "line 1 of the Lark grammar: there is no rule 'b'"],
    ['a: "x"', "there is no rule 'start'"],
    ['start: "x"\nstart: "y"', "line 2 of the Lark grammar: 'start' is defined twice"],
    ['start: "x', 'line 1'],
    ['start: ("x"', 'the grammar ends too early'],
    ['start: "x" )', "')' was not expected here"],
    ['start: /x/s', "the flags 's' of a regular expression are not supported"],
    ['start{a}: "x"', 'templates'],
    ['start: "ab".."c"', 'one character on each side'],
    ['start: X\n%import python.NAME -> X', 'only the terminals of `common`'],
    ['start: X\n%import common.NAME -> X', "no terminal 'NAME'"],
    ['start: "x"\n%declare X', '%declare is not supported'],
    [
      `start: a0\n${Array.from({ length: 40 }, (_, n) => `a${n}: a${n + 1} a${n + 1}`).join('\n')}\na40: "x"`,
      'too large',
    ],
  ])('%j is refused', (source, message) => {
    expect(() => larkToRegex(source)).toThrow(message);
  });
});
