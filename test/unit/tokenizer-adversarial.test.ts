import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WordSplitter } from '../../src/engine/tokenizer/word-splitter.ts';
import { referenceFamilies, referenceTexts, referenceTokenizer } from '../support/reference-tokenizers.ts';
import { rounds, selectCases } from '../support/tier.ts';

const tokenizers = referenceFamilies.map(({ name }) => [name, referenceTokenizer(name)] as const);

describe.each(tokenizers)('%s', (_, tokenizer) => {
  it('streams complete characters that concatenate to the text, for any ids', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(tokenizer.vocabSize - 1), { maxLength: 80 }), (ids) => {
        const whole = tokenizer.decode(ids);
        const stream = tokenizer.stream();
        let streamed = '';
        for (const id of ids) {
          const piece = stream.push(id);
          expect(piece.isWellFormed()).toBe(true);
          streamed += piece;
          // Streamed text is never changed later.
          expect(whole.startsWith(streamed)).toBe(true);
        }
        expect(streamed + stream.flush()).toBe(whole);
      }),
      { numRuns: rounds(200, 80) },
    );
  });

  it('encodes any text, and message text never becomes a control token', () => {
    const texts = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc
        .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 40 })
        .map((units) => String.fromCharCode(...units)),
      fc.array(fc.constantFrom(...referenceTexts), { maxLength: 6 }).map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(texts, (text) => {
        for (const id of tokenizer.encode(text)) {
          // The unknown token stands for text.
          expect(tokenizer.isControl(id) && !/unk/i.test(tokenizer.tokenText(id))).toBe(false);
        }
      }),
      { numRuns: rounds(200, 80) },
    );
  });
});

const exact = ['gpt-2', 'smollm', 'llama-3', 'gpt-4o', 'deepseek', 'falcon', 'gemma'];
it.each(exact)('%s decodes to the encoded text', (name) => {
  const tokenizer = referenceTokenizer(name);
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      // Gemma's vocabulary writes spaces as ▁, so a ▁ itself comes back as a space.
      const expected = name === 'gemma' ? text.replaceAll('▁', ' ') : text;
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(expected);
    }),
    { numRuns: rounds(300, 100) },
  );
});

/** A megabyte each. Quadratic algorithms would take hours. */
const megabyte = 2 ** 20;
const huge = {
  'one word': 'abcdefghij'.repeat(megabyte / 10),
  'one character': 'a'.repeat(megabyte),
  spaces: ' '.repeat(megabyte),
  'spaces and a letter': `${' '.repeat(megabyte)}x`,
  newlines: '\n'.repeat(megabyte),
  digits: '7'.repeat(megabyte),
  emoji: '😀'.repeat(megabyte / 4),
  'joined emoji': '👩‍👩‍👧‍👦'.repeat(megabyte / 25),
  marks: `a${'\u0301'.repeat(megabyte / 2)}`,
  'lone surrogates': '\ud800'.repeat(megabyte / 3),
  zeros: '\0'.repeat(megabyte),
  'marks of a space': '▁'.repeat(megabyte / 3),
  'beginnings of tokens': '<s'.repeat(megabyte / 2),
};
const kinds = ['gpt-2', 'marks', 'llama-2', 'metaspace', 'bert', 'xlm-r'];
describe.each(kinds)('%s encodes a megabyte of', (name) => {
  const tokenizer = referenceTokenizer(name);
  // In `npm test`, each text with one of the tokenizers.
  const nth = kinds.indexOf(name);
  it.each(selectCases(Object.entries(huge), (_, index) => index % kinds.length === nth))('%s', (_, text) => {
    const ids = tokenizer.encode(text, { parseSpecial: true });
    expect(tokenizer.decode(ids).isWellFormed()).toBe(true);
  });
});

it('an expression whose backtracking exceeds the stack runs in blocks', () => {
  const text = 'a'.repeat(10_000_000);
  const spans = new WordSplitter(['(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+']).split(text);
  expect(spans.length).toBeLessThan(1000);
  expect([spans[0], spans.at(-1)]).toEqual([0, text.length]);
});
