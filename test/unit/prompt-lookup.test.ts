import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PromptLookup } from '../../src/engine/speculation/prompt-lookup.ts';

/** A text whose last token was just appended. */
function after(tokens: number[]): PromptLookup {
  const lookup = new PromptLookup(tokens, 0.5);
  lookup.observe();
  return lookup;
}

describe('PromptLookup', () => {
  it('expects the token that followed the last occurrence of the same three tokens', () => {
    const lookup = after([1, 2, 3, 4, 5, 1, 2, 3, 6, 7, 1, 2, 3]);
    expect(lookup.availableTokens).toBeGreaterThan(0);
    expect(lookup.propose(0, 3)).toEqual([6, 7, 1]);
    expect(lookup.propose(1, 2)).toEqual([7, 1]);
  });

  it('or of the same two, when the three never occurred', () => {
    expect(after([9, 2, 3, 4, 5, 2, 3, 6, 1, 2, 3]).propose(0, 2)).toEqual([6, 1]);
    // An early match of three tokens takes precedence over a recent match of two.
    expect(after([1, 2, 3, 4, 5, 7, 2, 3, 6, 1, 2, 3]).propose(0, 1)).toEqual([4]);
  });

  it('or nothing', () => {
    for (const tokens of [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4, 3], [3, 1, 2, 3]]) {
      expect(after(tokens).availableTokens).toBe(0);
    }
  });

  it('extends its draft with itself at the end of the text', () => {
    expect(after([5, 1, 2, 1, 2]).propose(0, 5)).toEqual([1, 2, 1, 2, 1]);
    expect(after([7, 7, 7]).propose(0, 4)).toEqual([7, 7, 7, 7]);
  });

  it('follows its draft while it is correct, and searches again when it is not', () => {
    const tokens = [1, 2, 3, 4, 5, 6, 9, 8, 1, 2];
    const lookup = after(tokens);
    const append = (id: number) => {
      tokens.push(id);
      return lookup.observe();
    };
    expect([append(3), append(4)]).toEqual([true, true]);
    expect(lookup.propose(0, 2)).toEqual([5, 6]);
    expect(append(77)).toBe(false);
    expect(lookup.availableTokens).toBe(0);
    expect(append(9)).toBeUndefined();
    expect(append(8)).toBeUndefined();
    expect(lookup.propose(0, 2)).toEqual([1, 2]);
  });

  it('its acceptance rate is that of its drafts', () => {
    const tokens = Array.from({ length: 60 }, (_, index) => index % 3);
    const lookup = after(tokens);
    for (let n = 0; n < 40; n++) {
      tokens.push(tokens.length % 3);
      lookup.observe();
    }
    expect(lookup.acceptance).toBeGreaterThan(0.95);
    // The same two tokens, each time followed by another one.
    for (const id of Array.from({ length: 20 }, (_, n) => [7, 8, 100 + n]).flat()) {
      tokens.push(id);
      lookup.observe();
    }
    expect(lookup.acceptance).toBeLessThan(0.1);
  });

  it('proposes the requested number of tokens, each from the text, for any text', () => {
    const texts = fc.array(fc.nat(3), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(texts, fc.nat(1), fc.integer({ min: 1, max: 8 }), (text, skip, count) => {
        const tokens: number[] = [];
        const lookup = new PromptLookup(tokens, 0.5);
        for (const id of text) {
          const [expected] = lookup.availableTokens > 0 ? lookup.propose(0, 1) : [undefined];
          tokens.push(id);
          expect(lookup.observe()).toBe(expected === undefined ? undefined : expected === id);
          if (lookup.availableTokens === 0) continue;
          const draft = lookup.propose(skip, count);
          expect(draft).toHaveLength(count);
          expect(draft.every((one) => tokens.includes(one))).toBe(true);
          expect(lookup.propose(0, skip + count).slice(skip)).toEqual(draft);
        }
      }),
    );
  });
});
