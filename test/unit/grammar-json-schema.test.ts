import { beforeAll, describe, expect, it } from 'vitest';
import { translateToXGrammar } from '../../src/grammar/translate.ts';
import { GrammarError } from '../../src/grammar/types.ts';
import { ByteGrammars } from '../support/grammar-walks.ts';
import { validatorOf } from '../support/schema-validator.ts';
import { expectValid } from '../support/schema-walks.ts';

let grammars: ByteGrammars;
beforeAll(async () => {
  grammars = await ByteGrammars.open();
});

const person = {
  type: 'object',
  properties: { name: { type: 'string', minLength: 1 }, age: { type: 'integer', minimum: 0, maximum: 130 } },
  required: ['name'],
};

/** A schema, values that must be writable, values that must not be. */
const table: [name: string, schema: unknown, writes: unknown[], never: unknown[]][] = [
  [
    'properties in their order',
    person,
    [{ name: 'Ö', age: 7 }, { name: 'x' }],
    [{}, { age: 7 }, { name: '', age: 7 }, { name: 'x', age: 131 }, { name: 'x', more: 1 }],
  ],
  [
    'further properties',
    { ...person, additionalProperties: { type: 'boolean' } },
    [{ name: 'x', n: true, namex: false }],
    [{ name: 'x', n: 1 }],
  ],
  ['an object of anything', { type: 'object' }, [{}, { a: [1, { b: null }] }], [[], 1]],
  ['anything', {}, [null, 1.5e3, 'x', [[]], { a: {} }], []],
  [
    'no further property of a given name',
    { properties: { a: { type: 'integer' } }, additionalProperties: true, type: 'object' },
    [{ a: 1, b: 'x', aa: 1, '': 2 }],
    [{ a: 'x' }],
  ],
  [
    'patterns of names',
    {
      type: 'object',
      patternProperties: { '^x-': { type: 'integer' }, '^y': { type: 'string' } },
      additionalProperties: false,
    },
    [{ 'x-a': 1, y: 's' }],
    [{ z: 1 }, { 'x-a': 's' }],
  ],
  [
    'names',
    { type: 'object', propertyNames: { pattern: '^[a-z]{1,3}$' }, additionalProperties: { type: 'null' } },
    [{ abc: null }],
    [{ abcd: null }, { A: null }],
  ],
  [
    'counts of properties',
    { type: 'object', properties: { a: {}, b: {}, c: {} }, minProperties: 1, maxProperties: 2 },
    [{ a: 1 }, { a: 1, c: 1 }],
    [{}, { a: 1, b: 1, c: 1 }],
  ],
  [
    'counts of free properties',
    { type: 'object', additionalProperties: { type: 'integer' }, minProperties: 1, maxProperties: 2 },
    [{ x: 1 }, { x: 1, y: 2 }],
    [{}, { x: 1, y: 2, z: 3 }],
  ],
  [
    'enum and const',
    { enum: ['a', 'é"\n', 1, null, [1, { b: 2 }], { x: 1 }] },
    ['a', 'é"\n', 1, null, [1, { b: 2 }], { x: 1 }],
    ['b', 2, [1]],
  ],
  [
    'an enum that other keywords cut',
    { enum: ['a', 'bb', 3, 'ccc'], type: 'string', minLength: 2 },
    ['bb', 'ccc'],
    ['a', 3],
  ],
  ['types in a list', { type: ['string', 'null', 'integer'] }, ['x', null, 3], [true, 1.5]],
  ['nullable', { type: 'string', nullable: true }, ['x', null], [1]],
  [
    'bounds of integers',
    { type: 'integer', minimum: -12, exclusiveMaximum: 345 },
    [-12, -1, 0, 7, 99, 344],
    [-13, 345, 1000, 1.5],
  ],
  [
    'bounds of numbers',
    { type: 'number', exclusiveMinimum: -1.25, maximum: 3.5 },
    [-1.2, -0.5, 0, 0.001, 3.5, 2.75],
    [-1.25, -2, 3.51, 4, 10],
  ],
  ['a bound with an exponent', { type: 'number', minimum: 1e-7, maximum: 1e21 }, [0.5, 1], [0, -1]],
  ["draft 4's exclusive bounds", { type: 'integer', minimum: 3, exclusiveMinimum: true }, [4, 100], [3, 2]],
  ['multiples', { type: 'integer', multipleOf: 15, minimum: 0 }, [0, 15, 150, 3000], [1, 16, 155]],
  ['multiples of tens', { type: 'integer', multipleOf: 700 }, [0, 700, -1400, 7000, 70000], [100, 70, 7]],
  [
    'multiples of halves',
    { type: 'number', multipleOf: 0.25, maximum: 10 },
    [0, 0.5, 1.75, -3.25],
    [0.1, 10.25],
  ],
  [
    'few multiples of much',
    { type: 'integer', multipleOf: 4321, minimum: 0, maximum: 20000 },
    [0, 4321, 17284],
    [1, 21605],
  ],
  [
    'lengths in characters',
    { type: 'string', minLength: 2, maxLength: 3 },
    ['ab', 'é😀"', '\n\\"'],
    ['a', 'abcd'],
  ],
  [
    'long lengths',
    { type: 'string', minLength: 205, maxLength: 4321 },
    ['x'.repeat(205), 'y'.repeat(4321)],
    ['x'.repeat(204), 'y'.repeat(4322)],
  ],
  ['a pattern anywhere', { type: 'string', pattern: '[0-9]{2}' }, ['12', 'a"12\n'], ['1a2']],
  [
    'a bound pattern with a length',
    { type: 'string', pattern: '^[a-z]+(-[a-z]+)*$', maxLength: 6, minLength: 3 },
    ['abc', 'a-b', 'ab-cde'],
    ['ab', 'abcdefg', 'a--b'],
  ],
  [
    'characters that are escaped',
    { type: 'string', pattern: '^["\\\\\\n]{1,2}$' },
    ['"', '\\\n'],
    ['a', '"""'],
  ],
  [
    'two patterns',
    { allOf: [{ pattern: 'a' }, { pattern: 'b' }], type: 'string' },
    ['ab', 'xbya'],
    ['a', 'b'],
  ],
  ...(
    [
      ['date', '2024-02-29', '2023-02-29'],
      ['date-time', '2024-01-31T23:59:59.5Z', '2024-01-31 23:59:59'],
      ['time', '10:20:30+02:00', '25:00:00Z'],
      ['duration', 'P1DT2H', 'P'],
      ['email', 'a.b+c@mail.example.com', 'a@'],
      ['hostname', 'a-b.example', '-a'],
      ['ipv4', '192.168.0.255', '1.2.3.256'],
      ['ipv6', '2001:db8::1', '1:2:3'],
      ['uuid', '123e4567-e89b-12d3-a456-426614174000', '123e4567'],
      ['uri', 'https://example.com/a?b=c#d', 'no uri'],
      ['uri-reference', '/a/b?c', 'a b'],
      ['json-pointer', '/a/~1b', 'a'],
    ] as const
  ).map(([format, yes, no]): [string, unknown, unknown[], unknown[]] => [
    `the format ${format}`,
    { type: 'string', format },
    [yes],
    [no],
  ]),
  ['a format that means nothing', { type: 'string', format: 'colour' }, ['x'], [1]],
  [
    'items',
    { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 3 },
    [[1], [1, 2, 3]],
    [[], [1, 2, 3, 4], ['x']],
  ],
  [
    'many items',
    { type: 'array', items: { type: 'null' }, minItems: 150 },
    [Array(150).fill(null), Array(333).fill(null)],
    [Array(149).fill(null)],
  ],
  [
    'items by place',
    { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false, minItems: 1 },
    [['a'], ['a', 1]],
    [[], [1], ['a', 1, 2]],
  ],
  [
    "draft 7's items by place",
    { type: 'array', items: [{ type: 'string' }], additionalItems: { type: 'null' } },
    [[], ['a'], ['a', null, null]],
    [['a', 1]],
  ],
  [
    'contained items',
    { type: 'array', items: { type: ['integer', 'string'] }, contains: { const: 'x' } },
    [['x'], [1, 'x', 2]],
    [[], [1]],
  ],
  [
    'different values of a few',
    { type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true, minItems: 1 },
    [['a'], ['a', 'c'], ['a', 'b', 'c']],
    [[], ['a', 'a']],
  ],
  ['anyOf', { anyOf: [{ type: 'string', maxLength: 2 }, { type: 'integer' }] }, ['ab', 1], ['abc', null]],
  [
    'anyOf beside properties',
    {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'integer' } },
      anyOf: [{ required: ['a'] }, { required: ['b'] }],
    },
    [{ a: 1 }, { b: 1 }, { a: 1, b: 2 }],
    [{}],
  ],
  [
    'oneOf with a mark',
    {
      oneOf: [
        { type: 'object', properties: { t: { const: 'a' }, x: { type: 'integer' } }, required: ['t', 'x'] },
        { type: 'object', properties: { t: { const: 'b' }, y: { type: 'string' } }, required: ['t', 'y'] },
      ],
    },
    [
      { t: 'a', x: 1 },
      { t: 'b', y: '' },
    ],
    [{ t: 'a', y: '' }, { t: 'c' }],
  ],
  [
    'oneOf that overlaps',
    {
      oneOf: [
        { type: 'integer', minimum: 5 },
        { type: 'integer', maximum: 10 },
      ],
    },
    [4, 11],
    [5, 7, 10],
  ],
  [
    'oneOf of required names',
    {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'integer' } },
      oneOf: [{ required: ['a'] }, { required: ['b'] }],
    },
    [{ a: 1 }, { b: 1 }],
    [{}, { a: 1, b: 1 }],
  ],
  [
    'allOf',
    {
      allOf: [
        { type: 'object', properties: { a: { type: 'number', minimum: 3 } }, required: ['a'] },
        { properties: { a: { type: 'integer' }, b: { type: 'string' } } },
      ],
    },
    [{ a: 3 }, { a: 4, b: '' }],
    [{ a: 2 }, { a: 3.5 }],
  ],
  ['not of values', { type: 'string', not: { enum: ['a', 'ab'] } }, ['', 'b', 'abc', 'ac'], ['a', 'ab']],
  ['not of a number', { type: 'integer', not: { const: 7 } }, [6, 8, 77, -7], [7]],
  ['not of a type', { not: { type: ['object', 'array'] } }, [1, 'x', null], [{}, []]],
  ['not of a pattern', { type: 'string', not: { pattern: '^a' } }, ['', 'ba'], ['a', 'ab']],
  [
    'not of required names',
    {
      type: 'object',
      properties: { a: { type: 'null' }, b: { type: 'null' } },
      not: { required: ['a', 'b'] },
    },
    [{}, { a: null }, { b: null }],
    [{ a: null, b: null }],
  ],
  [
    'if, then, else',
    {
      type: 'object',
      properties: { k: { enum: ['a', 'b'] }, v: { type: 'integer' } },
      required: ['k'],
      if: { properties: { k: { const: 'a' } } },
      // oxlint-disable-next-line no-thenable -- the keyword
      then: { required: ['v'] },
      else: { properties: { v: false } },
    },
    [{ k: 'a', v: 1 }, { k: 'b' }],
    [{ k: 'a' }, { k: 'b', v: 1 }],
  ],
  [
    'what depends on a name',
    {
      type: 'object',
      properties: { a: { type: 'null' }, b: { type: 'null' } },
      dependentRequired: { a: ['b'] },
    },
    [{}, { b: null }, { a: null, b: null }],
    [{ a: null }],
  ],
  ['references', { $ref: '#/$defs/x%7Ey', $defs: { 'x~y': { type: 'integer' } } }, [1], ['x']],
  [
    'recursion',
    {
      type: 'object',
      properties: { v: { type: 'integer' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
      required: ['v', 'next'],
    },
    [
      { v: 1, next: null },
      { v: 1, next: { v: 2, next: null } },
    ],
    [{ v: 1 }],
  ],
  [
    'references by name',
    { items: { $ref: '#item' }, type: 'array', $defs: { i: { $anchor: 'item', type: 'boolean' } } },
    [[true, false]],
    [[1]],
  ],
  [
    'nothing unevaluated',
    {
      allOf: [{ properties: { a: { type: 'null' } } }],
      type: 'object',
      properties: { b: { type: 'null' } },
      unevaluatedProperties: false,
    },
    [{ a: null }, { b: null }],
    [{ c: null }],
  ],
  [
    'notes',
    {
      type: 'boolean',
      title: 't',
      description: 'd',
      default: 3,
      examples: [1],
      'x-order': 2,
      deprecated: true,
    },
    [true],
    [1],
  ],
];

describe('JSON schemas', () => {
  it.each(table)('enforces %s', async (_, schema, writes, never) => {
    const fits = validatorOf(schema, 'draft2020-12') ?? validatorOf(schema, 'draft7');
    const grammar = await grammars.compile({ kind: 'json_schema', schema });
    for (const value of writes) {
      expect(fits?.(value) ?? true, `a mistake in the table: ${JSON.stringify(value)}`).toBe(true);
      expect(await grammar.reads(JSON.stringify(value)), JSON.stringify(value)).toBe('whole');
      expect(await grammar.reads(JSON.stringify(value, null, 2)), 'with blanks').toBe('whole');
    }
    for (const value of never)
      expect(await grammar.reads(JSON.stringify(value)), JSON.stringify(value)).not.toBe('whole');
    grammar.dispose();
    expect(await expectValid(grammars, schema, 12)).toBeGreaterThan(0);
  });

  it.each<[string, unknown, string, RegExp]>([
    [
      'uniqueItems of free values',
      { properties: { a: { type: 'array', items: { type: 'string' }, uniqueItems: true } } },
      '/properties/a',
      /'uniqueItems'/,
    ],
    ['a far reference', { items: { $ref: 'https://example.com/x.json' } }, '/items', /'\$ref'.*outside/],
    ['a reference to nothing', { $ref: '#/$defs/x' }, '/$ref', /at \/\$ref: .*does not exist/],
    [
      'a reference to nothing far inside',
      { type: 'object', properties: { a: { items: { $ref: '#/$defs/x' } } } },
      '/properties/a/items/$ref',
      /does not exist: #\/\$defs\/x/,
    ],
    ['a reference to itself', { $ref: '#' }, '', /refers to itself/],
    ['$dynamicRef', { $dynamicRef: '#x' }, '', /'\$dynamicRef'/],
    ['maxContains', { contains: { const: 1 }, maxContains: 2 }, '', /'maxContains'/],
    ['unevaluatedItems', { unevaluatedItems: false }, '', /'unevaluatedItems'/],
    ['decimal multiples', { multipleOf: 0.01 }, '', /'multipleOf'.*smallest unit/],
    ['large multiples', { multipleOf: 4321 }, '', /'multipleOf'/],
    [
      'a lookahead',
      { type: 'object', properties: { p: { type: 'string', pattern: '(?=a)' } } },
      '/properties/p/pattern',
      /'pattern'.*lookahead/,
    ],
    ['a negation that cannot be expressed', { not: { items: { type: 'string' } } }, '/not', /'not'/],
    ['one object among all', { not: { const: {} } }, '/not', /'not'.*a single object/],
    ['an expression as a format', { type: 'string', format: 'regex' }, '/format', /'format'/],
    ['a type that is none', { type: 'text' }, '/type', /'type' must be one of/],
    ['a bound that is no number', { minimum: '3' }, '/minimum', /'minimum' must be a number/],
    ['a list of schemas that is none', { anyOf: {} }, '/anyOf', /'anyOf' must be an array/],
    ['a schema that is none', { items: 3 }, '/items', /an object or a boolean\), got 3\.$/],
    [
      'the name of a type in place of a schema',
      { type: 'object', properties: { name: 'string' } },
      '/properties/name',
      /expected a schema \(an object or a boolean\), got "string"; write \{"type": "string"\}/,
    ],
    [
      'a required name that nothing allows',
      {
        type: 'object',
        properties: {
          user: { type: 'object', properties: { a: {} }, required: ['a', 'b'], additionalProperties: false },
        },
        required: ['user'],
      },
      '/properties/user/required',
      /'required' lists "b", which is not in 'properties'/,
    ],
    [
      'a required name that is forbidden',
      { type: 'object', properties: { a: false }, required: ['a'] },
      '/required',
      /'required' lists "a", which another keyword does not allow/,
    ],
    ['a contradiction', { type: 'string', enum: [1] }, '', /no value matches/],
    [
      'endless recursion',
      { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] },
      '',
      /no value matches/,
    ],
    ['no value at all', false, '', /no value matches/],
    ['a text instead of a schema', 'string', '', /an object or a boolean/],
    [
      'too many alternatives',
      {
        allOf: Array.from({ length: 12 }, (_, i) => ({
          anyOf: [{ required: [`a${i}`] }, { required: [`b${i}`] }],
        })),
      },
      '',
      /too many alternatives/,
    ],
  ])('rejects %s with its path', (_, schema, path, message) => {
    let error: unknown;
    try {
      translateToXGrammar({ kind: 'json_schema', schema }, { allowLengthMarks: true });
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(GrammarError);
    expect(error).toMatchObject({
      code: 'unsupported_schema',
      path,
    });
    expect((error as Error).message).toMatch(message);
  });

  it('rejects hostile schemas quickly', () => {
    const deep = (() => {
      let schema: unknown = { type: 'null' };
      for (let depth = 0; depth < 1000; depth++) schema = { items: schema };
      return schema;
    })();
    const hostile: unknown[] = [
      deep,
      { oneOf: Array.from({ length: 200 }, (_, i) => ({ properties: { [`p${i}`]: { type: 'string' } } })) },
      {
        type: 'string',
        allOf: Array.from({ length: 30 }, (_, i) => ({ pattern: `(a|b)*${'ab'[i % 2]}(a|b){${i}}` })),
      },
      { enum: Array.from({ length: 10_000 }, (_, i) => i) },
      { minItems: 1e9 },
      { minLength: 1e9 },
      {
        patternProperties: Object.fromEntries(
          Array.from({ length: 40 }, (_, i) => [`a{${i}}`, { minimum: i }]),
        ),
      },
    ];
    for (const schema of hostile)
      expect(() => translateToXGrammar({ kind: 'json_schema', schema }, { allowLengthMarks: true })).toThrow(
        GrammarError,
      );
  });
});
