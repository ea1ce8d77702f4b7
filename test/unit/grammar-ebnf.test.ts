import { beforeAll, describe, expect, it } from 'vitest';
import type { GrammarSource } from '../../src/grammar/types.ts';
import { ByteGrammars } from '../support/grammar-walks.ts';

let grammars: ByteGrammars;
beforeAll(async () => {
  grammars = await ByteGrammars.open();
});

async function readings(source: GrammarSource, texts: readonly string[]): Promise<string[]> {
  const grammar = await grammars.compile(source);
  try {
    const found: string[] = [];
    for (const text of texts) found.push(await grammar.reads(text));
    return found;
  } finally {
    grammar.dispose();
  }
}

const ebnf = (text: string): GrammarSource => ({ kind: 'ebnf', text });

describe('EBNF grammars', () => {
  it.each<[string, string, string[], string[]]>([
    [
      'comments and alternatives on further lines',
      '# first\nroot ::= "a" # one\n  | "b"\n',
      ['a', 'b'],
      ['c', 'ab'],
    ],
    ['CRLF', 'root ::= "a"\r\n  | x\r\nx ::= "b"\r\n', ['a', 'b'], ['c']],
    [
      'repetitions',
      'root ::= "a"{2} "b"{1,2} "c"{2,} "d"{,2} [0-9]* "e"+ "f"?',
      ['aabcce', 'aabbccddd'.slice(0, 8) + '12eef'],
      ['abcce', 'aabbbcce'],
    ],
    [
      'repeated groups in groups',
      'root ::= (("a" | "b"){2} ","?)+ "."',
      ['ab.', 'ab,ba.', 'abba.'],
      ['a.', 'aba.'],
    ],
    ['any character', 'root ::= . "b"', ['ab', '\nb', 'éb', '😀b'], ['b', 'aab']],
    [
      'escapes',
      'root ::= "\\x41\\u00e9\\U0001F600\\t\\n\\"\\\\\\[" [\\]\\-\\\\^a]',
      ['Aé😀\t\n"\\[]', 'Aé😀\t\n"\\[^'],
      ['Aé😀\t\n"\\[b'],
    ],
    ['dashes at the ends of a class', 'root ::= [-a] [b-]', ['ab', '--', '-b'], ['ba']],
    [
      'names with dashes, dots, digits and underscores',
      'root ::= foo-bar.1_x\nfoo-bar.1_x ::= "x"',
      ['x'],
      ['y'],
    ],
    [
      'recursion to the left and to the right',
      'root ::= l r\nl ::= l "a" | "a"\nr ::= "b" r | ""',
      ['a', 'aab', 'abb'],
      ['b', 'ba'],
    ],
    ['an empty alternative', 'root ::= "a" ( | "b")', ['a', 'ab'], ['b']],
    // XGrammar 0.1.27 itself misreads non-ASCII classes.
    ['a class beyond ASCII', 'root ::= [à-ü] [\\u0400-\\u04ff]+', ['éж', 'üжЖ'], ['eж', 'éa', 'éz']],
    ['one character beyond ASCII in a class', 'root ::= [é]', ['é'], ['e', 'è']],
    ['a negated class beyond ASCII', 'root ::= [^aé]', ['b', 'è', '\n', '字'], ['a', 'é']],
    ['planes beyond the first', 'root ::= [\\U0001F600-\\U0001F64F]', ['😀'], ['🚀', 'a', '字']],
    [
      'the first and last characters of each length',
      'root ::= [\\u0080-\\U0010FFFF]',
      ['\u0080', '\u07ff', '\u0800', '\uffff', '\u{10000}', '\u{10ffff}', '\ud7ff', '\ue000'],
      ['\u007f'],
    ],
  ])('reads %s', async (_, text, whole, no) => {
    expect(await readings(ebnf(text), whole)).toEqual(whole.map(() => 'whole'));
    expect(await readings(ebnf(text), no)).not.toContain('whole');
  });

  it('start with the given rule', async () => {
    const source: GrammarSource = { kind: 'ebnf', text: 'root ::= "a"\nother ::= "b" root', root: 'other' };
    expect(await readings(source, ['ba', 'a'])).toEqual(['whole', 'no']);
  });

  it.each<[string, string, RegExp]>([
    ['no root', 'foo ::= "a"', /no start rule 'root'.*foo/],
    ['a rule that is not there', 'root ::= "a"\n  foo', /line 2.*'foo' is not defined/],
    ['a rule twice', 'root ::= "a"\nroot ::= "b"', /line 2.*'root' is defined twice/],
    ['an unclosed text', 'root ::= "a', /not closed/],
    ['an unclosed class', 'root ::= [a', /not closed/],
    ['an unclosed group', 'root ::= ("a"', /not closed/],
    ['bounds in the wrong order', 'root ::= "a"{2,1}', /lower bound/],
    ['a repetition of nothing', 'root ::= "a"{}', /repetition without a number|expected \{m\}/],
    ['single quotes', "root ::= 'a'", /unexpected '''/],
    ['an unknown escape', 'root ::= "\\q"', /'\\q' is an unknown escape/],
    ['a class escape', 'root ::= [\\d]', /'\\d' is an unknown escape/],
    ['a token of the model', 'root ::= <think> "a"', /token by name/],
    ['a lookahead', 'root ::= "a" (="b")', /lookahead/],
    [
      "XGrammar's own functions",
      'root ::= TagDispatch(("a", b), stop_eos=true)\nb ::= "c"',
      /'TagDispatch\(...\)' is not supported/,
    ],
    ['a half of a surrogate pair', 'root ::= "\\ud800"', /U\+D800 is not a character/],
    ['a grammar without a text', 'root ::= "a" root', /no text matches/],
    ['another assignment', 'root = "a"', /expected '::='/],
    ['nothing', '', /no start rule 'root'/],
    ['deep nesting', `root ::= ${'('.repeat(5000)}"a"${')'.repeat(5000)}`, /nested deeper than/],
    ['huge repetitions', 'root ::= "a"{1000000}', /more than 100000 repetitions/],
  ])('refuses %s', async (_, text, message) => {
    await expect(grammars.compile(ebnf(text))).rejects.toThrow(message);
    await expect(grammars.compile(ebnf(text))).rejects.toMatchObject({ code: 'invalid_grammar' });
  });
});

describe('alternatives with common prefixes and suffixes', () => {
  it.each<[string, GrammarSource]>([
    ['of a choice', { kind: 'choice', texts: ['apx', 'aqy', 'aqx'] }],
    ['of a grammar', { kind: 'ebnf', text: 'root ::= "apx" | b\nb ::= "aqy" | "aqx"' }],
    ['of a group', { kind: 'ebnf', text: 'root ::= ("apx" | "aqy" | "aqx")' }],
    ['of an expression', { kind: 'regex', pattern: 'apx|aqy|aqx' }],
  ])('%s are not mixed', async (_, source) => {
    expect(await readings(source, ['apx', 'aqy', 'aqx', 'apy'])).toEqual(['whole', 'whole', 'whole', 'no']);
  });

  it('of an enumeration are not mixed', async () => {
    const schema = { enum: ['FAILED_IP_EXCLUDE', 'FAILED_UA_INCLUDE', 'FAILED_UA_EXCLUDE'] };
    expect(
      await readings({ kind: 'json_schema', schema }, ['"FAILED_UA_INCLUDE"', '"FAILED_IP_INCLUDE"']),
    ).toEqual(['whole', 'no']);
  });
});

describe('a choice and one JSON object', () => {
  it('accepts one of the texts, with any characters', async () => {
    const source: GrammarSource = { kind: 'choice', texts: ['yes', 'yes, but', 'né"in\\\n', ''] };
    expect(await readings(source, ['yes', 'yes, but', 'né"in\\\n', '', 'yes,'])).toEqual([
      'whole',
      'whole',
      'whole',
      'whole',
      'part',
    ]);
    await expect(grammars.compile({ kind: 'choice', texts: [] })).rejects.toMatchObject({
      code: 'invalid_grammar',
    });
  });

  it('accepts objects in usual formatting', async () => {
    const value = { a: [1, -2.5e10, { b: null }], 'é"\n': 'x\u0001😀', t: true, empty: {}, none: [] };
    const texts = [
      JSON.stringify(value),
      JSON.stringify(value, null, 2),
      JSON.stringify(value, null, '\t'),
      '{}',
    ];
    expect(await readings({ kind: 'json' }, texts)).toEqual(texts.map(() => 'whole'));
    expect(
      await readings({ kind: 'json' }, ['[]', '1', '{"a":01}', '{"a":1,}', '{"a":"\\ud800"}', '{a:1}']),
    ).not.toContain('whole');
  });

  it('limits white space', async () => {
    const blanks = `{\n${' '.repeat(200)}`;
    expect(await readings({ kind: 'json' }, [blanks, '{\n\n\n'])).toEqual(['no', 'no']);
  });
});
