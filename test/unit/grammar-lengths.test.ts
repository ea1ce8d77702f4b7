/** Strings whose characters the token matcher counts after length marks. */
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { XGrammarLibrary } from '../../src/grammar/index.ts';
import { CompiledSource, TokenMatcher } from '../../src/grammar/matching/matcher.ts';
import { scanString } from '../../src/grammar/matching/string-scanner.ts';
import { TokenTable } from '../../src/grammar/matching/token-table.ts';
import { translateToXGrammar } from '../../src/grammar/translate.ts';
import type { GrammarSource } from '../../src/grammar/types.ts';
import { loadGrammarLibrary } from '../../src/platform/node-grammar-library.ts';
import { ByteGrammars, seeded } from '../support/grammar-walks.ts';
import { rounds } from '../support/tier.ts';

const bytesOf = (text: string) => new TextEncoder().encode(text);

const words = [
  'ab',
  'abc',
  ' the',
  'aé',
  'é',
  'éé',
  '🦊a',
  '\\n',
  '\\nab',
  '\\"',
  '\\\\"',
  '\\u00',
  '\\u0041b',
];
const closing = ['a"', 'abc"', '"}', '",', '","', '":', '":"', 'é"', '41"', 'n"', 'nab', '""', '"a', '"abc'];
/** Tokens of single bytes, several characters, parts of characters and escapes, and tokens that span quotes. */
const tokens: readonly Uint8Array[] = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...[...words, ...closing].map(bytesOf),
  ...[
    [0xa9, 0x22],
    [0xa9, 0x61, 0x62],
    [0x61, 0xc3],
    [0x9f, 0xa6],
    [0x61, 0xff, 0x30],
  ].map((bytes) => Uint8Array.from(bytes)),
];
const end = tokens.length;
const ends: number[] = [];
for (const token of tokens) ends.push((ends.at(-1) ?? 0) + token.length);
const vocabulary = {
  bytes: Uint8Array.from(tokens.flatMap((token) => [...token])),
  ends: Uint32Array.from(ends),
  size: end + 1,
  endIds: [end],
};
const quoteWithin = (id: number): boolean => [...(tokens[id] ?? [])].slice(0, -1).includes(0x22);
const allowed = (mask: ArrayLike<number>): number[] =>
  Array.from({ length: vocabulary.size }, (_, id) => id).filter(
    (id) => (((mask[id >> 5] as number) >>> (id & 31)) & 1) === 1,
  );

let library: XGrammarLibrary;
let set: TokenTable;
beforeAll(async () => {
  library = await loadGrammarLibrary();
  set = await TokenTable.create(library, vocabulary, []);
});

const lengths = fc.tuple(fc.nat(9), fc.option(fc.nat(9), { nil: undefined })).map(([min, more]) => ({
  type: 'string',
  minLength: min,
  ...(more === undefined ? {} : { maxLength: min + more }),
}));
const anyText = fc.oneof(
  lengths,
  fc.tuple(fc.nat(3), fc.nat(6)).map(([min, more]) => ({
    type: 'string',
    pattern: `^[aé"\\n]{${min},${min + more}}$`,
  })),
);
const anySchema = fc.oneof(
  anyText,
  fc.record({ type: fc.constant('array'), items: anyText, minItems: fc.constant(2) }),
  fc
    .tuple(anyText, anyText)
    .map(([a, b]) => ({ type: 'object', properties: { a, b }, required: ['a', 'b'] })),
  fc.tuple(anyText, anyText).map((anyOf) => ({ anyOf })),
);

describe('counted strings', () => {
  it('have the masks of the grammar that counts with rules, except for tokens that span an opening quote', async () => {
    let steps = 0;
    await fc.assert(
      fc.asyncProperty(anySchema, fc.nat(), async (one, seed) => {
        const compiled = await CompiledSource.compile(library, set, { kind: 'json_schema', schema: one });
        const exact = await library.GrammarMatcher.createGrammarMatcher(await compiled.exactGrammar());
        const matcher = await TokenMatcher.create(compiled);
        const random = seeded(seed);
        let written = '';
        for (let step = 0; step < 25; step++, steps++) {
          const mine = new Set(allowed(await matcher.mask()));
          const theirs = allowed(await exact.getNextTokenBitmask());
          const where = `${JSON.stringify(one)} after ${written}`;
          for (const id of theirs) if (!quoteWithin(id)) expect(mine, where).toContain(id);
          // The library's masks omit some tokens that it accepts.
          for (const id of mine) {
            if (theirs.includes(id)) continue;
            expect(exact.acceptToken(id), `${where}: token ${id}`).toBe(true);
            exact.rollBack(1);
          }
          const next = [...mine][Math.floor(random() * mine.size)] as number;
          if (next === end) break;
          await matcher.accept([next]);
          written += String.fromCharCode(...(tokens[next] ?? []));
          expect(exact.acceptToken(next)).toBe(true);
        }
        for (const made of [exact, matcher, compiled]) made.dispose();
      }),
      { numRuns: rounds(150, 50) },
    );
    expect(steps).toBeGreaterThan(rounds(1000, 300));
  });

  it('need no rule for each count', () => {
    const rules = (schema: unknown) =>
      translateToXGrammar({ kind: 'json_schema', schema }, { allowLengthMarks: true }).text.split('\n')
        .length;
    const ruleLimit = rules({ type: 'string' }) + 3;
    expect(rules({ type: 'string', minLength: 20, maxLength: 4000 })).toBeLessThan(ruleLimit);
    expect(rules({ type: 'string', pattern: '^\\S+$', maxLength: 4000 })).toBeLessThan(ruleLimit + 6);
    expect(rules({ anyOf: [{ const: 'auto' }, { type: 'string', maxLength: 64 }] })).toBeLessThan(ruleLimit);
    // Every rule with a wide class costs a pass over the vocabulary.
    for (const format of ['email', 'uri', 'url', 'date-time', 'uuid'])
      expect(rules({ type: 'string', format }), format).toBeLessThan(250);
  });

  it('reject tokens that their masks do not allow', async () => {
    const source: GrammarSource = {
      kind: 'json_schema',
      schema: { type: 'string', minLength: 2, maxLength: 3 },
    };
    const compiled = await CompiledSource.compile(library, set, source);
    for (const [text, next] of [
      ['"a', '"'],
      ['"abc', 'd'],
    ] as const) {
      const matcher = await TokenMatcher.create(compiled);
      await matcher.accept([...bytesOf(text)]);
      await expect(matcher.accept([...bytesOf(next)])).rejects.toThrow(/does not allow token/);
      matcher.dispose();
    }
    compiled.dispose();
  });

  it('accept escapes and characters that are split across tokens', () => {
    const content = fc.array(fc.constantFrom('a', 'é', '鸡', '🦊', '\\n', '\\"', '\\\\', '\\u0041'), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(content, fc.array(fc.nat(60)), (characters, cuts) => {
        const bytes = bytesOf(`${characters.join('')}"after"`);
        const places = [...cuts.filter((cut) => cut < bytes.length), bytes.length].sort((a, b) => a - b);
        let [count, place, closed, at] = [0, 0, false, 0];
        for (const cut of places) {
          if (closed) break;
          const part = scanString(bytes, at, cut, place);
          count += part.characters;
          [place, closed, at] = [part.position, part.isClosed, cut];
        }
        expect(closed).toBe(true);
        expect(count).toBe(characters.length);
      }),
    );
  });
});

describe('values that may start with the same quote', () => {
  it.each<[string, unknown, unknown[], unknown[]]>([
    [
      'two lengths',
      {
        anyOf: [
          { type: 'string', maxLength: 2 },
          { type: 'string', pattern: '^[a-z]{4,5}$' },
        ],
      },
      ['', 'Ä', 'ab', 'abcd', 'abcde'],
      ['abc', 'ABCD', 'abcdef'],
    ],
    [
      'lengths of objects that differ later',
      {
        anyOf: [
          { properties: { a: { type: 'string', maxLength: 1 }, b: { const: 1 } }, required: ['a', 'b'] },
          { properties: { a: { type: 'string', maxLength: 3 }, b: { const: 2 } }, required: ['a', 'b'] },
        ].map((one) => ({ type: 'object', ...one })),
      },
      [
        { a: 'x', b: 1 },
        { a: 'x', b: 2 },
        { a: 'xyz', b: 2 },
      ],
      [
        { a: 'xy', b: 1 },
        { a: 'wxyz', b: 2 },
      ],
    ],
    [
      'a name and a length',
      { anyOf: [{ const: 'automatic' }, { type: 'string', maxLength: 3 }, { const: 'abc' }] },
      ['automatic', 'abc', 'au'],
      ['auto'],
    ],
    [
      'more lengths than there are marks',
      {
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 70 }, (_, i) => [`p${i}`, { type: 'string', maxLength: i }]),
        ),
      },
      [{ p3: 'abc', p69: 'a'.repeat(69) }, { p63: 'a'.repeat(63) }],
      [{ p3: 'abcd' }, { p69: 'a'.repeat(70) }, { p68: 'a'.repeat(69) }],
    ],
  ])('are distinguished: %s', async (_, schema, writes, never) => {
    const grammar = await (await ByteGrammars.open()).compile({ kind: 'json_schema', schema });
    for (const value of writes)
      expect(await grammar.reads(JSON.stringify(value)), JSON.stringify(value)).toBe('whole');
    for (const value of never)
      expect(await grammar.reads(JSON.stringify(value)), JSON.stringify(value)).toBe('no');
  });

  it('are distinguished in free text with tags that contain counted strings', async () => {
    const source: GrammarSource = {
      kind: 'structural',
      format: {
        type: 'triggered_tags',
        triggers: ['<t>'],
        tags: [
          {
            type: 'tag',
            begin: '<t>',
            content: { type: 'json_schema', json_schema: { type: 'string', minLength: 1, maxLength: 2 } },
            end: '</t>',
          },
        ],
      },
    };
    const compiled = await CompiledSource.compile(library, set, source);
    const matcher = await TokenMatcher.create(compiled);
    await matcher.accept([...bytesOf('say "ab')]);
    const free = await matcher.mask();
    expect(free).toHaveLength(Math.ceil(vocabulary.size / 32));
    const written = allowed(free);
    expect(written).toContain(end);
    for (const id of written) expect([...(tokens[id] ?? [])], `token ${id}`).not.toContain(0xff);
    await matcher.accept([...bytesOf('cd" <t>"')]);
    expect(allowed(await matcher.mask())).not.toContain(0x22);
    await matcher.accept([...bytesOf('ab')]);
    expect(allowed(await matcher.mask()).map((id) => String.fromCharCode(...(tokens[id] ?? [])))).toEqual([
      '"',
    ]);
    await matcher.accept([...bytesOf('"</t> and "abc" ')]);
    expect(allowed(await matcher.mask())).toContain(end);
    matcher.dispose();
    compiled.dispose();
  });
});
