/** Math in Markdown: `$…$` and `\(…\)` in a line, `$$…$$` and `\[…\]` on their own. */
import type { TokenizerAndRendererExtension, Tokens } from 'marked';

/** A formula in TeX. */
export interface MathToken extends Tokens.Generic {
  readonly type: 'math';
  readonly raw: string;
  readonly tex: string;
  readonly isDisplay: boolean;
}

/** The formula that a token is; undefined for every other token. */
export const mathOf = (token: { readonly type: string }): MathToken | undefined =>
  token.type === 'math' ? (token as MathToken) : undefined;

/** Longest formula, in characters; longer ones stay text. */
export const maxTex = 4000;

const blockPatterns: readonly RegExp[] = [
  /^ {0,3}\$\$([^$]+?)\$\$[ \t]*(?:\n+|$)/,
  /^ {0,3}\\\[([^]+?)\\\][ \t]*(?:\n+|$)/,
];

/** Display formulas within a line come first, because `$$` also begins with `$`. */
const inlinePatterns: readonly { readonly pattern: RegExp; readonly isDisplay: boolean }[] = [
  { pattern: /^\$\$((?:[^$\n\\]|\\[^]|\n(?!\s*\n))+?)\$\$/, isDisplay: true },
  { pattern: /^\\\[((?:[^\n]|\n(?!\s*\n))+?)\\\]/, isDisplay: true },
  { pattern: /^\\\(((?:[^\n]|\n(?!\s*\n))+?)\\\)/, isDisplay: false },
  // As in Pandoc: no space inside the signs, and no digit after them, so that prices are no formulas.
  { pattern: /^\$(?![\s$])((?:[^$\n\\`]|\\[^\n]|\n(?!\s*\n))+?)(?<!\s)\$(?![\w$])/, isDisplay: false },
];

/** Two prices in a sentence: a number, and words after it. */
const looksLikePrice = (tex: string): boolean => /^\d[\d.,]*\s+[a-z]{2,}\b/i.test(tex) && !tex.includes('\\');

const mathToken = (raw: string, tex: string, isDisplay: boolean): MathToken | undefined =>
  tex.trim() === '' || tex.length > maxTex ? undefined : { type: 'math', raw, tex: tex.trim(), isDisplay };

/** Where the next formula of a line may begin. */
function inlineStart(text: string): number | undefined {
  const found = /(?<![\w$\\])\$(?!\s)|\\[([]/.exec(text);
  return found?.index;
}

export const mathExtensions: readonly TokenizerAndRendererExtension[] = [
  {
    name: 'math',
    level: 'block',
    start: (text) => /(?:^|\n) {0,3}(?:\$\$|\\\[)/.exec(text)?.index,
    tokenizer(text) {
      for (const pattern of blockPatterns) {
        const [raw, tex = ''] = pattern.exec(text) ?? [];
        if (raw !== undefined) return mathToken(raw, tex, true);
      }
      return undefined;
    },
  },
  {
    name: 'inlineMath',
    level: 'inline',
    start: inlineStart,
    tokenizer(text) {
      for (const { pattern, isDisplay } of inlinePatterns) {
        const [raw, tex = ''] = pattern.exec(text) ?? [];
        if (raw === undefined) continue;
        return !isDisplay && raw.startsWith('$') && looksLikePrice(tex)
          ? undefined
          : mathToken(raw, tex, isDisplay);
      }
      return undefined;
    },
  },
];
