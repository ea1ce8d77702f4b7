import { describe, expect, it } from 'vitest';
import { optionViolations, requestViolations } from '../../web/engine/validate-request.ts';

const messages = [{ role: 'user', content: 'Hi' }];
const paths = (request: unknown): string[] => requestViolations(request).map(({ path }) => path);

describe('a request', () => {
  it('with every member at its limits is valid', () => {
    expect(requestViolations({ messages })).toEqual([]);
    for (const low of [true, false]) {
      const request = {
        messages: [
          { role: 'system', content: '' },
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content: 'Hello', name: null },
        ],
        max_tokens: 1,
        temperature: low ? 0 : 2,
        top_p: low ? 0 : 1,
        top_k: low ? -1 : 2 ** 31,
        min_p: low ? 0 : 1,
        repetition_penalty: low ? 0.01 : 10,
        presence_penalty: low ? -2 : 2,
        frequency_penalty: low ? -2 : 2,
        seed: low ? -(2 ** 63) : 2 ** 63,
        stop: low ? 'x' : Array.from({ length: 16 }, () => 'x'),
        stream: low,
      };
      expect(requestViolations(request)).toEqual([]);
    }
    // As on the HTTP API.
    expect(requestViolations({ messages, temperature: null, stop: undefined, tools: null })).toEqual([]);
  });

  it.each([
    ['max_tokens', [0, 1.5, '3', Number.NaN]],
    ['temperature', [-0.1, 2.1, '1', Number.NaN]],
    ['top_p', [-1, 1.1]],
    ['top_k', [-2, 0.5, 2 ** 31 + 1]],
    ['min_p', [-1, 2]],
    ['repetition_penalty', [0, 11]],
    ['presence_penalty', [-3, 3]],
    ['frequency_penalty', [-3, 3]],
    ['seed', [0.5, 'x', 2 ** 64]],
    ['stop', ['', [''], [1], Array.from({ length: 17 }, () => 'x'), {}]],
    ['stream', ['yes', 1]],
    ['tools', [[]]],
    ['model', ['x']],
    ['__proto__x', [1]],
    ['constructor', [1]],
    ['messages', [[], 'Hi', {}, null, undefined]],
  ])('with an invalid %s is refused with the name of that member', (member, values) => {
    for (const value of values) expect(paths({ messages, [member]: value })).toEqual([member]);
  });

  it('reports all violations at once, with the received values', () => {
    const wrong = requestViolations({
      messages: [{ role: 'tool', content: ['x'], name: 'y' }, 'Hi'],
      temperature: 3,
      logprobs: true,
    });
    expect(wrong.map(({ path }) => path)).toEqual([
      'messages.0.role',
      'messages.0.content',
      'messages.0.name',
      'messages.1',
      'temperature',
      'logprobs',
    ]);
    expect(wrong[4]?.message).toBe('expected a number from 0 to 2, got 3');
    expect(wrong[5]?.message).toMatch(
      /^is not supported here; expected one of messages, max_tokens, .*stream$/,
    );
  });

  it('is refused unless it is an object', () => {
    const circular: unknown[] = [];
    circular.push(circular);
    for (const request of [undefined, null, 'Hi', 3, [], 10n, circular]) expect(paths(request)).toEqual(['']);
    expect(paths({ messages: circular })).toEqual(['messages.0']);
  });
});

describe('options', () => {
  it('are all checked, and all violations are reported at once', () => {
    expect(optionViolations({})).toEqual([]);
    const right = {
      model: [new File([], 'a.gguf')],
      cache: false,
      contextLength: 1,
      onProgress() {},
      signal: new AbortController().signal,
    };
    expect(optionViolations(right)).toEqual([]);
    expect(optionViolations({ model: new URL('http://x/a.gguf') })).toEqual([]);
    const wrong = { model: [], cache: 1, contextLength: 0, onProgress: {}, signal: {}, quantize: 'q8_0' };
    expect(optionViolations(wrong).map(({ path }) => path)).toEqual(Object.keys(wrong));
    for (const model of [[3], {}, 3, null]) expect(optionViolations({ model })).toHaveLength(1);
  });
});
