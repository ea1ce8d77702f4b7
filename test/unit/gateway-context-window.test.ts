import { describe, expect, it } from 'vitest';
import { contextWindowCheck } from '../../src/gateway/serve/context-window.ts';

const models = [50, 20, 9, 8].map((contextWindow) => ({ id: `m-${contextWindow}`, contextWindow }));

describe('the context window', () => {
  it('of every deployment and fallback is checked with one reading of the prompt', () => {
    let reads = 0;
    const messages = [
      {
        role: 'user',
        get content() {
          reads += 1;
          return 'one two three four five six seven eight nine ten '.repeat(2);
        },
      },
    ];
    const check = contextWindowCheck({ textBytes: 98 }, { messages: [messages] });
    const errors = models.map((model) => {
      try {
        check(model);
        return undefined;
      } catch (error) {
        return error;
      }
    });
    expect(reads).toBe(1);
    // 19 of the words follow another one; a token has at most two.
    expect(errors.slice(0, 2)).toEqual([undefined, undefined]);
    for (const [at, contextWindow] of [
      [2, 9],
      [3, 8],
    ] as const)
      expect(errors[at]).toMatchObject({
        status: 400,
        code: 'context_length_exceeded',
        param: 'messages',
        message: expect.stringMatching(
          `^This prompt has at least 10 tokens; the context window of m-${contextWindow} has ${contextWindow}\\.`,
        ),
      });
  });

  it('is not exceeded by a prompt with fewer bytes, which is not read', () => {
    const prompt = {
      get content(): string {
        throw new Error('read');
      },
    };
    expect(() => contextWindowCheck({ textBytes: 50 }, { messages: [prompt] })(models[0]!)).not.toThrow();
  });

  it('is that of each input; the first that is too long is named', () => {
    const check = contextWindowCheck(
      { textBytes: 1000 },
      { input: [[1, 2], Array(11).fill(1), Array(12).fill(1)] },
    );
    expect(() => check({ id: 'm', contextWindow: 12 })).not.toThrow();
    expect(() => check({ id: 'm', contextWindow: 10 })).toThrow('at least 11 tokens');
  });
});
