import { describe, expect, it } from 'vitest';
import { escapeInvisible } from '../../web/ui/format.ts';

describe('text that a person reviews', () => {
  it.each([
    ['rm \u202E/txt.\u2066\u200B', 'rm <U+202E>/txt.<U+2066><U+200B>'],
    ['a\u0000b\u001b[2J\u0085', 'a<U+0000>b<U+001B>[2J<U+0085>'],
    ['\u{e0041}\ufeff\u00ad\u2028', '<U+E0041><U+FEFF><U+00AD><U+2028>'],
  ])('shows what would hide: %j', (text, shown) => expect(escapeInvisible(text)).toBe(shown));

  it('is otherwise unchanged', () => {
    const text = '-\tconst ä = "日本語 \u{1f600} שלום";\r\n+ <b>&amp;</b>';
    expect(escapeInvisible(text)).toBe(text);
  });
});
