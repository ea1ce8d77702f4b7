import { describe, expect, it } from 'vitest';
import { type ParsedText, parseBlocks } from '../../web/ui/markdown/blocks.ts';
import { type MathToken, mathOf } from '../../web/ui/markdown/math-tokens.ts';
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

/** Formulas of a text: those in a line, and `display` before the others. */
function formulasOf(text: string): string[] {
  const found: MathToken[] = [];
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const math = 'type' in value ? mathOf(value as { type: string }) : undefined;
    if (math) found.push(math);
    else for (const member of Object.values(value)) visit(member);
  };
  visit(parseBlocks(text).blocks);
  return found.map(({ tex, isDisplay }) => `${isDisplay ? 'display ' : ''}${tex}`);
}

describe('math in Markdown', () => {
  it.each([
    ['in a line', 'The area is $\\pi r^2$, or \\(\\tau r^2 / 2\\).', ['\\pi r^2', '\\tau r^2 / 2']],
    [
      'on its own',
      'So\n\n$$\n\\frac{1}{2}\n$$\n\nand\n\n\\[\nx = 1\n\\]\n',
      ['display \\frac{1}{2}', 'display x = 1'],
    ],
    ['on its own in a line', 'so $$x = 1$$ and \\[y\\]', ['display x = 1', 'display y']],
    ['in a list, a quote and a cell', '- $a$\n\n> $b$\n\n| x |\n| - |\n| $c$ |\n', ['a', 'b', 'c']],
    ['with underscores and asterisks', '$a_1 * b_2 * c_3$', ['a_1 * b_2 * c_3']],
  ])('is found %s', (_where, text, formulas) => {
    expect(formulasOf(text)).toEqual(formulas);
  });

  it.each([
    'It costs $5 and $6.',
    'From $5 to $10, or US$20 and CA$30.',
    'Between $5-$6, $1,000 and $2,000 million.',
    'You pay 5$ or 6$.',
    'It has $5 and more than 6$.',
    'The variables `$HOME` and `$PATH`.',
    '```sh\necho $HOME $$ $PATH\n```',
    'An escaped \\$x\\$.',
    'An open formula $x + 1',
    'An open formula\n\n$$\nx + 1\n',
    'An open formula \\(x + 1 and \\[y',
    `A long one $${'x'.repeat(5000)}$.`,
  ])('is not %j', (text) => {
    expect(formulasOf(text)).toEqual([]);
  });

  it('appears when its end arrives, and the text before it stays as it is', () => {
    const text = 'First.\n\nSecond $a+b$ and more.\n\n$$\nc\n$$\n\nThe end.';
    let parsed: ParsedText | undefined;
    for (let end = 1; end <= text.length; end += 1) parsed = parseBlocks(text.slice(0, end), parsed);
    expect(parsed?.blocks.map(({ token }) => token.type)).toEqual(
      parseBlocks(text).blocks.map(({ token }) => token.type),
    );
  });
});
