import { describe, expect, it } from 'vitest';
import { type ParsedText, parseBlocks } from '../../web/ui/markdown/blocks.ts';
import { safeUrl } from '../../web/ui/markdown/safe-url.ts';

const sample = `# Title

A paragraph with *emphasis*, \`code\` and a [link](https://example.com).
Title of level two
---

1. one

2. two
   - nested

   still two

| a | b |
| - | -: |
| 1 | 2 |

\`\`\`py
print("x")

print("y")
\`\`\`

> quoted
> more

<script>alert(1)</script>

The end.
`;

describe('Markdown that grows', () => {
  it('has the blocks of the whole text, however it was cut', () => {
    const whole = parseBlocks(sample);
    for (const step of [1, 2, 3, 7, 50]) {
      let parsed: ParsedText | undefined;
      for (let end = 0; end < sample.length; end += step) parsed = parseBlocks(sample.slice(0, end), parsed);
      parsed = parseBlocks(sample, parsed);
      expect(parsed.blocks, `cut every ${step} characters`).toEqual(whole.blocks);
    }
  });

  it('parses finished blocks once', () => {
    const before = parseBlocks('one\n\ntwo\n\nthree\n\nfour');
    const after = parseBlocks('one\n\ntwo\n\nthree\n\nfour five', before);
    expect(after.blocks.map(({ token }) => before.blocks.some((one) => one.token === token))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it('is parsed again when the text is another, or has other line ends', () => {
    const before = parseBlocks('one\n\ntwo\n\nthree\n\nfour');
    expect(parseBlocks('two', before)).toEqual(parseBlocks('two'));
    expect(parseBlocks('one\r\n\r\ntwo\r').blocks).toEqual(parseBlocks('one\n\ntwo\n').blocks);
  });
});

describe('links in Markdown', () => {
  it('lead only to absolute addresses of protocols that run no code', () => {
    expect(safeUrl('https://example.com/a b')).toBe('https://example.com/a%20b');
    expect(safeUrl('mailto:a@example.com')).toBe('mailto:a@example.com');
    const unsafe = ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', ' javascript:alert(1)', 'java\nscript:1'];
    for (const url of [
      ...unsafe,
      'data:text/html,x',
      'vbscript:x',
      'file:///etc/passwd',
      'blob:x',
      '/console',
    ])
      expect(safeUrl(url), url).toBeUndefined();
  });
});
