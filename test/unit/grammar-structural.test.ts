import { beforeAll, describe, expect, it } from 'vitest';
import type { StructuralFormat, StructuralTag } from '../../src/grammar/types.ts';
import { ByteGrammars } from '../support/grammar-walks.ts';

let grammars: ByteGrammars;
beforeAll(async () => {
  grammars = await ByteGrammars.open();
});

const call = (name: string): StructuralTag => ({
  type: 'tag',
  begin: `<f=${name}>`,
  content: {
    type: 'json_schema',
    json_schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
  },
  end: '</f>',
});
const think: StructuralTag = {
  type: 'tag',
  begin: '<think>',
  content: { type: 'any_text' },
  end: '</think>',
};
const calls = { type: 'triggered_tags', triggers: ['<f='], tags: [call('a'), call('b')] } as const;
const a = '<f=a>{"n":1}</f>';
const b = '<f=b>{"n":2}</f>';

describe('structural formats', () => {
  it.each<[string, StructuralFormat, Record<string, 'whole' | 'part' | 'no'>]>([
    ['free text', { type: 'any_text' }, { '': 'whole', 'any é\n<f=': 'whole' }],
    [
      'free text without some texts',
      { type: 'any_text', excludes: ['<f=', 'foo'] },
      { 'fo <f': 'whole', 'a foo': 'no', 'x<f=': 'no' },
    ],
    ['a fixed text', { type: 'const_string', value: 'ab"é' }, { 'ab"é': 'whole', a: 'part', b: 'no' }],
    ['a tag', think, { '<think>a < b</think>': 'whole', '<think>': 'part', '<think>a</think>b': 'no' }],
    [
      'free text without some texts in a tag',
      { ...think, content: { type: 'any_text', excludes: ['bad'] } },
      { '<think>ba</think>': 'whole', '<think>bad': 'no', '<think>a</think>x': 'no' },
    ],
    [
      'a tag with several ends',
      { ...think, end: ['</think>', '</done>'] },
      { '<think>a</done>': 'whole', '<think>a</think>': 'whole' },
    ],
    [
      'tags that are triggered',
      calls,
      {
        '': 'whole',
        hello: 'whole',
        [`hi ${a} and ${b}.`]: 'whole',
        '<f=c': 'no',
        '<f=a>x': 'no',
        '<f=a>{"n":1}': 'part',
      },
    ],
    [
      'at least one of them',
      { ...calls, at_least_one: true },
      { '': 'part', hello: 'no', [a]: 'whole', [a + b]: 'whole' },
    ],
    [
      'exactly one of them',
      { ...calls, at_least_one: true, stop_after_first: true },
      { [a]: 'whole', [a + b]: 'no', [`${a} `]: 'no' },
    ],
    [
      'the end after the first of them',
      { ...calls, stop_after_first: true },
      { hello: 'whole', [`x ${a}`]: 'whole', [`${a}x`]: 'no' },
    ],
    [
      'separated tags',
      { type: 'tags_with_separator', tags: [call('a'), call('b')], separator: '\n' },
      { '': 'whole', [a]: 'whole', [`${a}\n${b}`]: 'whole', [a + b]: 'no' },
    ],
    [
      'tags without a separator',
      { type: 'tags_with_separator', tags: [call('a'), call('b')], separator: '', at_least_one: true },
      { '': 'part', [a + b + a]: 'whole' },
    ],
    [
      'thoughts, then text with calls',
      { type: 'sequence', elements: [think, calls] },
      {
        '<think>x</think>hi': 'whole',
        [`<think>x</think>${a}`]: 'whole',
        hi: 'no',
        '<think>x</think><f=q': 'no',
      },
    ],
    [
      'free text up to a fixed one',
      {
        type: 'sequence',
        elements: [
          { type: 'any_text' },
          { type: 'const_string', value: '=>' },
          { type: 'regex', pattern: '[0-9]+' },
        ],
      },
      { 'a=b=>12': 'whole', 'a=>b': 'no' },
    ],
    [
      'one of several',
      {
        type: 'or',
        elements: [
          call('a'),
          { type: 'grammar', grammar: 'root ::= x+\nx ::= "é"' },
          { type: 'const_string', value: 'no' },
        ],
      },
      { [a]: 'whole', éé: 'whole', no: 'whole', x: 'no' },
    ],
    [
      'calls in a tag',
      { type: 'tag', begin: '[', content: calls, end: ']' },
      { '[]': 'whole', [`[x ${a}]`]: 'whole', '[a': 'part', '[<f=c': 'no' },
    ],
    [
      'two schemas and a grammar with the same rule names',
      {
        type: 'sequence',
        elements: [
          { type: 'json_schema', json_schema: { type: 'integer' } },
          { type: 'grammar', grammar: 'root ::= string\nstring ::= "s"' },
          { type: 'json_schema', json_schema: { type: 'string' } },
        ],
      },
      { '1s"x"': 'whole', '1"x"': 'no' },
    ],
  ])('reads %s', async (_, format, expected) => {
    const grammar = await grammars.compile({ kind: 'structural', format });
    const found: Record<string, string> = {};
    for (const text of Object.keys(expected)) found[text] = await grammar.reads(text);
    grammar.dispose();
    expect(found).toEqual(expected);
  });

  it.each<[string, StructuralFormat, RegExp]>([
    [
      'a tag without its trigger',
      { ...calls, triggers: ['<g='] },
      /must begin with exactly one of the triggers/,
    ],
    [
      'triggers within each other',
      {
        type: 'triggered_tags',
        triggers: ['foo', 'xfoob'],
        tags: [
          { ...call('a'), begin: 'foo>' },
          { ...call('b'), begin: 'xfoob>' },
        ],
      },
      /cannot be distinguished/,
    ],
    ['a tag of free text without an end', { ...think, end: '' }, /end must not be empty/],
    [
      'text after free text',
      { type: 'sequence', elements: [{ type: 'any_text' }, call('a')] },
      /must be followed by a non-empty 'const_string'/,
    ],
    [
      'an end that is in a trigger',
      { type: 'tag', begin: '[', content: calls, end: '=' },
      /cannot be distinguished/,
    ],
    [
      'a schema that cannot be kept',
      { type: 'json_schema', json_schema: { uniqueItems: true, type: 'array' } },
      /uniqueItems/,
    ],
  ])('refuses %s', async (_, format, message) => {
    await expect(grammars.compile({ kind: 'structural', format })).rejects.toThrow(message);
  });
});
