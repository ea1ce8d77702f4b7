import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { both, matches, not, toAutomaton } from '../../src/grammar/regex/automaton.ts';
import { parseRegex } from '../../src/grammar/regex/parse.ts';
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
];

/** Texts that come close to the patterns. */
const texts = fc
  .array(fc.constantFrom(...Array.from('aabbccx1.@-é]/ \nAü_')), { maxLength: 8 })
  .map((all) => all.join(''));

describe('regular expressions', () => {
  it.each(patterns)('%s matches what the runtime matches, whole and anywhere', (pattern) => {
    const whole = toAutomaton(parseRegex(pattern, 'whole'));
    const anywhere = toAutomaton(parseRegex(pattern, 'search'));
    const expectedWhole = new RegExp(`^(?:${pattern})$`, 'u');
    const expectedAnywhere = new RegExp(pattern, 'u');
    fc.assert(
      fc.property(texts, (text) => {
        expect(matches(whole, text)).toBe(expectedWhole.test(text));
        expect(matches(anywhere, text)).toBe(expectedAnywhere.test(text));
        expect(matches(not(whole), text)).toBe(!expectedWhole.test(text));
        expect(matches(both(whole, anywhere), text)).toBe(expectedWhole.test(text));
      }),
      { numRuns: 150 },
    );
  });

  it.each(['^a', 'a$', '^a$|^b', 'a|^b$', '^', '$', '^$'])(
    '%s is bound where the runtime binds it',
    (pattern) => {
      const found = toAutomaton(parseRegex(pattern, 'search'));
      fc.assert(
        fc.property(texts, (text) => {
          expect(matches(found, text)).toBe(new RegExp(pattern, 'u').test(text));
        }),
        { numRuns: 150 },
      );
    },
  );

  it('as a grammar writes only what matches as a whole', async () => {
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
    ['(a)\\1', /reference to what a group matched/],
    ['\\bfoo', /word boundary/],
    ['a^b', /'\^' after the beginning/],
    ['(a$)b', /'\$' inside a group/],
    ['a$b', /'\$' before the end/],
    ['[a', /class that is not closed/],
    ['(a', /group that is not closed/],
    ['a)', /closing '\)'/],
    ['*a', /nothing to repeat/],
    ['a{3,2}', /lower bound/],
    ['[b-a]', /first is after its last/],
    ['\\p{Nonsense}', /property/],
    ['\\', /at the end/],
    ['a{99999}', /more than 10000 repetitions/],
    [`${'('.repeat(500)}a${')'.repeat(500)}`, /nested more than/],
  ])('refuses %s', (pattern, message) => {
    expect(() => parseRegex(pattern, 'whole')).toThrow(message);
    expect(() => parseRegex(pattern, 'whole')).toThrow(expect.objectContaining({ code: 'invalid_grammar' }));
  });

  it('refuses what would take too many states', () => {
    expect(() => toAutomaton(parseRegex('(a|b)*a(a|b){40}', 'whole'))).toThrow(/too many states/);
    expect(() => toAutomaton(parseRegex('((a{1000}){1000}){1000}', 'whole'))).toThrow(/too many states/);
  });
});
