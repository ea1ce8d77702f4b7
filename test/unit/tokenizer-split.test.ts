import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  findPreTokenizerConfig,
  preTokenizerConfigs,
} from '../../src/engine/tokenizer/pre-tokenizer-configs.ts';
import { type SplitStep, WordSplitter } from '../../src/engine/tokenizer/word-splitter.ts';
import { describeShared } from '../support/shared.ts';

function split(steps: readonly (string | SplitStep)[], text: string): string[] {
  const spans = new WordSplitter(steps).split(text);
  return spans.flatMap((start, i) => (i % 2 === 0 ? [text.slice(start, spans[i + 1])] : []));
}

/** Characters that the expressions distinguish, and some others. */
const texts = fc
  .array(
    fc.oneof(
      fc.constantFrom(...Array.from(" \t\n\r'sStTlLaAzZ019.,!?-<>$^|`(){}é")),
      fc.constantFrom(...Array.from('ÉßǅʰאकािⅫ½²٣中あ。、…“”\u00a0\u0085\u2028\u3000\ufeff\u200b😀𐐀𝟙')),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 2 }),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(''));

const names = Object.keys(preTokenizerConfigs);

describe('words of a text', () => {
  it.each(names)('%s: they concatenate to the text, and none is empty', (name) => {
    const splitter = new WordSplitter(findPreTokenizerConfig(name).steps);
    fc.assert(
      fc.property(texts, (text) => {
        const spans = splitter.split(text);
        expect(spans.at(-1) ?? 0).toBe(text.length);
        for (let i = 0; i < spans.length; i += 2) {
          expect(spans[i]).toBe(spans[i - 1] ?? 0);
          expect(spans[i + 1]).toBeGreaterThan(spans[i] as number);
        }
      }),
      { numRuns: 50 },
    );
  });

  // The models' own expressions, run by JavaScript's Unicode mode, with Unicode's white space for \s.
  const originals: Readonly<Record<string, string>> = {
    'gpt-2': "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    qwen2:
      "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" +
      ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
    tekken:
      '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|' +
      '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|' +
      ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
  };
  it.each(Object.entries(originals))(
    '%s: class bytes give the same splits as Unicode mode',
    (name, source) => {
      const inBrackets = source
        .replaceAll('[^\\s', '[^\\p{White_Space}')
        .replaceAll('\\s', '\\p{White_Space}')
        .replaceAll('\\S', '\\P{White_Space}');
      const original = new RegExp(inBrackets, 'gu');
      const { steps } = findPreTokenizerConfig(name);
      fc.assert(
        fc.property(texts, (text) => {
          const whole = text.toWellFormed();
          expect(split(steps, whole)).toEqual(whole.match(original) ?? []);
        }),
        { numRuns: 500 },
      );
    },
  );

  it('superbpe groups digits in threes from the right', () => {
    expect(split(findPreTokenizerConfig('superbpe').steps, 'x1234567y12z123')).toEqual([
      'x',
      '1',
      '234',
      '567',
      'y',
      '12',
      'z',
      '123',
    ]);
  });

  it('an unknown pre-tokenizer is refused with the list of the known ones', () => {
    expect(() => findPreTokenizerConfig('nonesuch')).toThrow(
      /'nonesuch' \(supported: default, gpt-2, .*qwen2/,
    );
    expect(() => findPreTokenizerConfig('constructor')).toThrow(/supported/);
  });
});

interface Patterns {
  defaults: { inputs: string[] };
  patterns: { id: string; pattern: string; inputs?: string[] }[];
}

describeShared(
  "Rust's regular expressions",
  [
    'data/tokenizers/split-regex/splitRegexPatterns.json',
    'data/tokenizers/split-regex/splitRegexOracle.json.gz',
  ],
  (patternPath, oraclePath) => {
    const patterns = JSON.parse(readFileSync(patternPath, 'utf8')) as Patterns;
    const oracle = JSON.parse(gunzipSync(readFileSync(oraclePath)).toString()) as {
      tokens: Record<string, string[][]>;
    };
    /** Pre-tokenizer, its step, and the id of the same expression among the oracle's. */
    const same: [string, number, string][] = [
      ['qwen2', 0, 'hub-037'],
      ['llama-bpe', 0, 'hub-041'],
      ['qwen35', 0, 'hub-027'],
      ['tekken', 0, 'hub-022'],
      ['gpt-4o', 0, 'hub-042'],
      ['seed-coder', 0, 'hub-076'],
      ['bailingmoe', 0, 'hub-032'],
      ['deepseek-v3', 0, 'hub-003'],
      ['deepseek-v3', 1, 'hub-075'],
      ['deepseek-v3', 2, 'hub-011'],
      ['deepseek-llm', 0, 'hub-008'],
      ['deepseek-llm', 1, 'hub-035'],
      ['deepseek-llm', 2, 'hub-071'],
      ['deepseek-llm', 4, 'hub-021'],
      ['deepseek-coder', 1, 'hub-012'],
      ['deepseek-coder', 2, 'hub-040'],
      ['deepseek-coder', 4, 'hub-068'],
      ['falcon', 2, 'hub-017'],
    ];
    it.each(same)('%s, step %i matches what %s matches', (name, step, id) => {
      const inputs =
        patterns.patterns.find((pattern) => pattern.id === id)?.inputs ?? patterns.defaults.inputs;
      const expected = oracle.tokens[id] as string[][];
      expect(expected.length).toBe(inputs.length);
      inputs.forEach((input, i) => {
        const steps = [findPreTokenizerConfig(name).steps[step] as string];
        expect([input, split(steps, input)]).toEqual([input, isolate(input, expected[i] as string[])]);
      });
    });
  },
);

describeShared(
  "Oniguruma's matches",
  [
    'data/tokenizers/split-regex/splitRegexPatterns.json',
    'data/tokenizers/split-regex/splitRegexOracle.json.gz',
  ],
  (patternPath, oraclePath) => {
    const { patterns, defaults } = JSON.parse(readFileSync(patternPath, 'utf8')) as Patterns;
    const oracle = JSON.parse(gunzipSync(readFileSync(oraclePath)).toString()) as {
      tokens: Record<string, string[][]>;
    };
    const known = patterns.filter(({ id }) => oracle.tokens[id]);
    const inverted = (expression: string) => [{ expression, behavior: 'removed', invert: true }] as const;

    it('of every pattern of real models without \\G', () => {
      const runnable = known.filter(({ pattern }) => !pattern.includes('\\G'));
      expect(runnable.length).toBeGreaterThan(130);
      for (const { id, pattern, inputs = defaults.inputs } of runnable) {
        // Here `ß` does not match `ss`.
        if (id === 'edge-ci-full-fold') continue;
        const found = inputs.map((input) => split(inverted(pattern), input));
        expect([id, found]).toEqual([id, oracle.tokens[id]]);
      }
    });

    it.each(known.filter(({ pattern }) => pattern.includes('\\G')))('$id is refused', ({ pattern }) => {
      expect(() => new WordSplitter([pattern])).toThrow(/\\G at character \d+ of/);
    });
  },
);

/** The matches and the gaps between them. */
function isolate(input: string, matches: readonly string[]): string[] {
  const pieces: string[] = [];
  let last = 0;
  for (const match of matches) {
    const at = input.indexOf(match, last);
    if (at > last) pieces.push(input.slice(last, at));
    pieces.push(match);
    last = at + match.length;
  }
  if (last < input.length) pieces.push(input.slice(last));
  return pieces;
}
