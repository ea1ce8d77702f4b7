import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EarlyStop } from '../../src/planes/llama-cpp/early-stop.ts';

/** The accepted part of a text that arrives in these pieces. */
function follow(pieces: readonly string[], indent: number): { text: string; over: boolean } {
  const early = new EarlyStop({ indent, maxDurationMs: 0 }, () => 0);
  let text = '';
  for (const piece of pieces) {
    const pushed = early.push(piece);
    text += pushed.text;
    if (pushed.isFinished) return { text, over: true };
  }
  return { text: text + early.end(), over: false };
}

describe('an answer that ends before a line with less indentation', () => {
  it.each([
    ['a line that is indented enough', 'a\n  b\n   c', 'a\n  b\n   c', false],
    ['one that is not', 'a\n  b\n c', 'a\n  b', true],
    ['empty lines', 'a\n\n \n  b', 'a\n\n \n  b', false],
    ['the first line', 'a', 'a', false],
    ['an end after a line break', 'a\n', 'a\n', false],
    ['tabs', 'a\n\t\tb\n\tc', 'a\n\t\tb', true],
    ['a line break at once', '\nb', '', true],
  ])('%s', (_, text, kept, over) => {
    expect(follow([text], 2)).toEqual({ text: kept, over });
  });

  it('does not depend on how the text is split', () => {
    const text = fc.string({ unit: fc.constantFrom('a', ' ', '\n', '\t'), maxLength: 30 });
    fc.assert(
      fc.property(text, fc.array(fc.nat(30)), fc.nat(4), (whole, cuts, indent) => {
        const places = [0, ...cuts.filter((cut) => cut <= whole.length), whole.length].sort((a, b) => a - b);
        const pieces = places.slice(1).map((end, at) => whole.slice(places[at], end));
        expect(follow(pieces, indent)).toEqual(follow([whole], indent));
      }),
    );
  });

  it('keeps the longest prefix whose lines are indented enough', () => {
    const line = fc.string({ unit: fc.constantFrom('a', ' ', 'b'), maxLength: 6 });
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1, max: 4 }),
        (lines, indent) => {
          const bad = lines.findIndex(
            (one, at) => at > 0 && one.trim() !== '' && one.search(/[^ ]/) < indent,
          );
          const kept = bad === -1 ? lines : lines.slice(0, bad);
          const { text, over } = follow([lines.join('\n')], indent);
          expect(over).toBe(bad !== -1);
          expect(text.trimEnd()).toBe(kept.join('\n').trimEnd());
        },
      ),
    );
  });
});

describe('an answer that ends after a time', () => {
  const at = (times: readonly number[], pieces: readonly string[]) => {
    let now = 0;
    const early = new EarlyStop({ indent: 0, maxDurationMs: 10 }, () => now);
    return pieces.map((piece, index) => {
      now = times[index] ?? now;
      return early.push(piece).isFinished;
    });
  };
  it('counts from the first token, and needs a line break', () => {
    expect(at([100, 110, 111], ['a', '\n', 'b'])).toEqual([false, false, true]);
    expect(at([100, 500, 900], ['a', 'b', 'c'])).toEqual([false, false, false]);
  });
});
