import { describe, expect, it } from 'vitest';
import { createChatTemplate, createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { bpeMetadata } from '../support/tokenizer-files.ts';

const tokenizer = createTokenizer(
  bpeMetadata({ pre: 'default', vocabulary: { a: 0 }, merges: ['a a'], special: { '</s>': 1 } }),
);
const render = (source: string, variables: Readonly<Record<string, unknown>>) =>
  createChatTemplate(new Map([['tokenizer.chat_template', source]]), tokenizer)?.render({
    messages: [],
    variables,
  });

/** Every text is what Python's Jinja 3.1 writes. */
describe('templates are read as Python reads them', () => {
  const shadowing = { d: { items: [1], keys: 'k', get: 2, values: { a: 1 } } };

  it.each([
    ['{% for k, v in d.items() %}{{ k }},{% endfor %}', shadowing, 'items,keys,get,values,'],
    ['{{ d.keys() | list | length }}{{ d.values() | list | length }}', shadowing, '44'],
    ["{{ d.get('keys') }}{{ d.get('none', 'other') }}{{ d['get'] }}", shadowing, 'kother2'],
  ])('methods of an object with such keys: %s', (source, variables, expected) => {
    expect(render(source, variables)).toBe(expected);
  });

  it.each([
    ['{{ x }}', null, 'None'],
    ['{{ x | string }}', null, 'None'],
    ['{{ d.x | string }}', null, 'None'],
    ["{{ 'a' ~ x ~ 'b' }}", null, 'aNoneb'],
    ['{{ x | string }}', true, 'True'],
    ['{{ x }}', false, 'False'],
    ['{{ x | upper }}', ['string', 'null'], "['STRING', 'NULL']"],
    ['{{ x | string }}', { a: [1.5, null, true], "it's": '"' }, `{'a': [1.5, None, True], "it's": '"'}`],
    ['{{ x | trim }}', ' a ', 'a'],
    ['{{ x }}{{ x | string }}{{ x | upper }}', undefined, ''],
    ["{{ 'a' ~ x }}", undefined, 'a'],
    ['{{ x | tojson }}', { a: [null, true] }, '{"a": [null, true]}'],
  ])('%s of %j is %s', (source, x, expected) => {
    expect(render(source, { x, d: { x } })).toBe(expected);
  });

  it.each([
    ["{{ x in ['a', 'b'] }}", 'a', 'True'],
    ["{{ x in ['a', 'b'] }}", null, 'False'],
    ["{{ x in ['a', 'b'] }}", ['a'], 'False'],
    ["{{ x not in ['a', 'b'] }}", undefined, 'True'],
    ["{{ 'a' in x }}", { a: 1 }, 'True'],
    ["{{ 'a' not in x }}", 'bar', 'False'],
    ["{{ 'a' in x }}", undefined, 'False'],
    ['{{ 2 in x }}', [1, 2], 'True'],
  ])('%s of %j is %s', (source, x, expected) => {
    expect(render(`{% set y = ${source.slice(3, -3)} %}{{ y }}`, { x })).toBe(expected);
  });

  it('what is undefined is no key', () => {
    const words = { string: 'str' };
    expect(render('{{ words[type] }}|{{ words[other.type] }}', { words, type: 'string', other: {} })).toBe(
      'str|',
    );
    expect(render('{{ list[at] }}{{ list[at - 1] }}', { list: ['a', 'b'], at: 1 })).toBe('ba');
  });

  it('a macro that is printed or asked is called once', () => {
    const macro = '{% macro deep(x) %}{% if x.y %}{{ deep(x.y) | string | upper }}{% endif %}a{% endmacro %}';
    let nested: object = {};
    for (let depth = 0; depth < 60; depth++) nested = { y: nested, other: 1 };
    expect(render(`${macro}{{ deep(x) ~ '' }}`, { x: nested })).toBe(`${'A'.repeat(59)}a`);
  });
});
