import { describe, expect, test } from 'vitest';
import { CustomInputReader } from '../../src/wires/responses/custom-input.ts';

describe('the text of a custom tool call', () => {
  const texts = [
    '',
    'plain',
    'a "quoted" \\ line\nand\ttab/',
    'ü 🦊 \u2028',
    '\ud800 alone',
    '{"input": "x"}',
  ];

  test.each(texts)('%j arrives piece by piece, however its JSON is split', (text) => {
    const escapeAll = (json: string) =>
      json.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    for (const json of [JSON.stringify({ input: text }), escapeAll(`{ "input" : ${JSON.stringify(text)} }`)])
      for (const size of [1, 2, 3, 5, 7, 1000]) {
        const reader = new CustomInputReader();
        let added = '';
        for (let at = 0; at < json.length; at += size) {
          const piece = reader.push(json.slice(at, at + size));
          // A half of a character could not be sent.
          if (!text.includes('\ud800')) expect(piece.isWellFormed()).toBe(true);
          added += piece;
        }
        expect([size, added, reader.text]).toEqual([size, text, text]);
      }
  });

  test('of truncated arguments it is the text so far; of others the arguments', () => {
    const truncated = new CustomInputReader();
    truncated.push('{"input": "ab\\u00');
    expect(truncated.text).toBe('ab');
    const other = new CustomInputReader();
    expect(other.push('{"x": 1}')).toBe('');
    expect(other.text).toBe('{"x": 1}');
    const late = new CustomInputReader();
    expect(late.push('{"x": 1, "input": "y"}')).toBe('');
    expect(late.text).toBe('y');
  });
});
