import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  intersectAutomata,
  acceptsText,
  complementAutomaton,
  toAutomaton,
} from '../../src/grammar/regex/automaton.ts';
import { parseRegex } from '../../src/grammar/regex/parse-regex.ts';
import { GrammarError } from '../../src/grammar/types.ts';
import { ByteGrammars, seeded } from '../support/grammar-walks.ts';

let grammars: ByteGrammars;
beforeAll(async () => {
  grammars = await ByteGrammars.open();
});

const patterns = [
  'a|bc|',
  '[a-c]{2,3}x?',
  '(ab?)+c*',
  '\\d+(\\.\\d+)?',
  '[^a-c]b',
  '\\w+@\\w+',
  '.b.',
  '(?:a|b){2}',
  '(?<name>a)b*?',
  '[\\w-]+',
  '[\\]a\\-]',
  '\\u0061\\x62\\u{63}',
  '[é-ü]+',
  '\\p{Lu}a',
  '\\s\\S',
  '\\/a\\.b',
  'a{0}b{1,}',
  '((a|b)*c){1,2}',
  '(a*){3,}b',
  '(a{2})?([bc]{1,2}){2}',
  '((a?){2})*x',
];

/** Texts that nearly match the patterns. */
const texts = fc
  .array(fc.constantFrom(...Array.from('aabbccx1.@-é]/ \nAü_')), { maxLength: 8 })
  .map((all) => all.join(''));

const shortTexts = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '\n'), maxLength: 5 });

/** Patterns of a few letters, groups and counts with `^` and `$` at any position. */
const { anchored } = fc.letrec<{ anchored: string; terms: string; term: string }>((tie) => ({
  anchored: fc.oneof(
    { weight: 2, arbitrary: tie('terms') },
    { weight: 1, arbitrary: fc.tuple(tie('terms'), tie('anchored')).map((parts) => parts.join('|')) },
  ),
  terms: fc.array(tie('term'), { maxLength: 3 }).map((parts) => parts.join('')),
  term: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    fc.constantFrom('a', 'b', 'a', '.', '[^a]', 'b?', 'a*', '(?:ab)+', '^', '$', '^', '$'),
    fc
      .tuple(tie('anchored'), fc.constantFrom('', '', '?', '*', '+', '{2}', '{1,2}', '{2,}', '*?'))
      .map(([inner, count]) => `(${inner})${count}`),
  ),
}));

const stringSchema = (pattern: string) => ({
  kind: 'json_schema' as const,
  schema: { type: 'string', pattern },
});

/** In both scopes, the pattern accepts a text exactly when the runtime does. */
function likeRuntime(pattern: string): (text: string) => void {
  const whole = toAutomaton(parseRegex(pattern, 'whole'));
  const anywhere = toAutomaton(parseRegex(pattern, 'search'));
  const expectedWhole = new RegExp(`^(?:${pattern})$`, 'u');
  const expectedAnywhere = new RegExp(pattern, 'u');
  return (text) => {
    const where = `${pattern} ${JSON.stringify(text)}`;
    expect(acceptsText(whole, text), where).toBe(expectedWhole.test(text));
    expect(acceptsText(anywhere, text), where).toBe(expectedAnywhere.test(text));
  };
}

describe('regular expressions', () => {
  it.each(patterns)('%s matches what the runtime matches, in both scopes', (pattern) => {
    const whole = toAutomaton(parseRegex(pattern, 'whole'));
    const anywhere = toAutomaton(parseRegex(pattern, 'search'));
    const expectedWhole = new RegExp(`^(?:${pattern})$`, 'u');
    const expectedAnywhere = new RegExp(pattern, 'u');
    fc.assert(
      fc.property(texts, (text) => {
        expect(acceptsText(whole, text)).toBe(expectedWhole.test(text));
        expect(acceptsText(anywhere, text)).toBe(expectedAnywhere.test(text));
        expect(acceptsText(complementAutomaton(whole), text)).toBe(!expectedWhole.test(text));
        expect(acceptsText(intersectAutomata(whole, anywhere), text)).toBe(expectedWhole.test(text));
      }),
      { numRuns: 150 },
    );
  });

  it.each([
    '^a',
    'a$',
    '^a$|^b',
    'a|^b$',
    '^',
    '$',
    '^$',
    '(^a)|(^b)',
    '(a$|b$)',
    '(^|b)a($|c)',
    '((^a|b)$)+',
    '(^a?$){2}',
    '($|^a){2}',
    '(^|a|$){3}',
    'b(^|a)c',
    '$^',
    'a$b^c',
    'a^b',
  ])('%s is anchored as in the runtime, in both scopes', (pattern) => {
    fc.assert(fc.property(texts, likeRuntime(pattern)), { numRuns: 150 });
  });

  /** Some need more states than allowed, with or without anchors. */
  const like = (pattern: string) => {
    try {
      return likeRuntime(pattern);
    } catch (error) {
      fc.pre(!(error instanceof GrammarError && error.code === 'grammar_too_complex'));
      throw error;
    }
  };

  it('random patterns with anchors match what the runtime matches, in both scopes', () => {
    fc.assert(
      fc.property(anchored, fc.array(shortTexts, { minLength: 10, maxLength: 10 }), (pattern, some) => {
        ['', ...some].forEach(like(pattern));
      }),
      { numRuns: 500 },
    );
  });

  it('as grammars, random patterns with anchors allow what the runtime matches', async () => {
    const samples = fc.sample(fc.tuple(anchored, fc.array(shortTexts, { maxLength: 4 })), {
      numRuns: 60,
      seed: 3,
    });
    for (const [pattern, some] of samples) {
      for (const [kind, expression] of [
        ['regex', new RegExp(`^(?:${pattern})$`, 'u')],
        ['pattern', new RegExp(pattern, 'u')],
      ] as const) {
        const source = kind === 'regex' ? { kind, pattern } : stringSchema(pattern);
        const written = (text: string) => (kind === 'regex' ? text : JSON.stringify(text));
        const grammar = await grammars.compile(source).catch((error: unknown) => {
          // Only if the pattern matches nothing.
          expect(error).toMatchObject({ message: expect.stringMatching(/no (text|value) matches/) });
          return undefined;
        });
        for (const text of ['', 'a', 'b', 'ab', ...some]) {
          const reads = grammar ? await grammar.reads(written(text)) : 'no';
          expect(reads === 'whole', `${kind} ${pattern} ${JSON.stringify(text)}`).toBe(expression.test(text));
        }
        grammar?.dispose();
      }
    }
  });

  it('property names follow the anchors of their patterns', async () => {
    const grammar = await grammars.compile({
      kind: 'json_schema',
      schema: {
        type: 'object',
        propertyNames: { pattern: '(^a)|(^b$)' },
        additionalProperties: { type: 'null' },
      },
    });
    expect(await grammar.reads('{"ax": null, "b": null}')).toBe('whole');
    expect(await grammar.reads('{"bx": null}')).toBe('no');
    grammar.dispose();
  });

  it('rejects as a grammar a pattern that matches nothing', async () => {
    await expect(grammars.compile({ kind: 'regex', pattern: 'a^b' })).rejects.toMatchObject({
      code: 'invalid_grammar',
    });
    await expect(grammars.compile(stringSchema('a^b'))).rejects.toMatchObject({ code: 'unsupported_schema' });
  });

  it('rejects too many anchors immediately', () => {
    expect(() => parseRegex('(^|$)'.repeat(600), 'search')).toThrow(/more than 1000/);
    expect(() => parseRegex('(^a|b$|(cd)*)'.repeat(450), 'search')).toThrow(
      expect.objectContaining({ code: 'grammar_too_complex' }),
    );
  });

  it('as a grammar allows only texts that match completely', async () => {
    const random = seeded(7);
    for (const pattern of patterns) {
      const grammar = await grammars.compile({ kind: 'regex', pattern });
      for (let walk = 0; walk < 10; walk++) {
        const text = await grammar.walk(random);
        if (text !== undefined) expect(text, pattern).toMatch(new RegExp(`^(?:${pattern})$`, 'u'));
      }
      grammar.dispose();
    }
  });

  it.each<[string, RegExp]>([
    ['a(?=b)', /lookahead/],
    ['a(?!b)', /lookahead/],
    ['(?<=a)b', /lookbehind/],
    ['(a)\\1', /a back-reference/],
    ['\\bfoo', /word boundary/],
    ['^*a', /'\*' with nothing to repeat/],
    ['a$?', /'\?' with nothing to repeat/],
    ['(^{2})', /'\{' with nothing to repeat/],
    ['[a', /class that is not closed/],
    ['(a', /group that is not closed/],
    ['a)', /unmatched '\)'/],
    ['*a', /nothing to repeat/],
    ['a{3,2}', /lower bound/],
    ['[b-a]', /first character is after its last/],
    ['\\p{Nonsense}', /property/],
    ['\\', /at the end/],
    ['a{99999}', /more than 10000 repetitions/],
    [`${'('.repeat(500)}a${')'.repeat(500)}`, /nested deeper than/],
  ])('refuses %s', (pattern, message) => {
    expect(() => parseRegex(pattern, 'whole')).toThrow(message);
    expect(() => parseRegex(pattern, 'whole')).toThrow(expect.objectContaining({ code: 'invalid_grammar' }));
  });

  it('rejects patterns that need too many states', () => {
    expect(() => toAutomaton(parseRegex('(a|b)*a(a|b){40}', 'whole'))).toThrow(/too many states/);
    expect(() => toAutomaton(parseRegex('((a{1000}){1000}){1000}', 'whole'))).toThrow(/too many states/);
  });
});
