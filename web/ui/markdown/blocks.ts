import { Marked, type Token } from 'marked';
import { mathExtensions } from './math-tokens.ts';

const marked = new Marked({ extensions: [...mathExtensions] });

/** A block of a Markdown text: a paragraph, a list, a table, a code block. */
export interface Block {
  /** Start of the block in the text, in characters. */
  readonly start: number;
  readonly token: Token;
}

/** A text, parsed so far. */
export interface ParsedText {
  readonly text: string;
  readonly blocks: readonly Block[];
  /** Whether links may refer to definitions elsewhere in the text. */
  readonly hasDefinitions: boolean;
}

/**
 * Blocks at the end that more text can still change: the last one, and the one before it, because text that looks like a
 * paragraph may become the next item of a list.
 */
const openBlocks = 2;

/**
 * Parses Markdown into blocks. With the same text as parsed before plus more at its end, only the end is parsed again.
 * References to link definitions are resolved within what is parsed together, so a complete text is parsed without `before`.
 */
export function parseBlocks(source: string, before?: ParsedText): ParsedText {
  const text = source.replaceAll(/\r\n?/g, '\n');
  const finished = before && text.startsWith(before.text) ? before.blocks.slice(0, -openBlocks) : [];
  const last = finished.at(-1);
  const start = last ? last.start + last.token.raw.length : 0;
  const tail = text.slice(start);
  const tokens = marked.lexer(tail);
  const blocks = [...finished];
  let at = start;
  for (const token of tokens) {
    const previous = blocks.at(-1);
    // Space between blocks belongs to the block before it, so that blocks cover the text.
    if (token.type === 'space' && previous && blocks.length > finished.length)
      blocks[blocks.length - 1] = {
        ...previous,
        token: { ...previous.token, raw: previous.token.raw + token.raw },
      };
    else blocks.push({ start: at, token });
    at += token.raw.length;
  }
  const isCovered = at === text.length;
  // Where the parser's source differs from the text, positions are unknown and everything is parsed again.
  if (!isCovered && finished.length > 0) return parseBlocks(source);
  return {
    text: isCovered ? text : '\0',
    blocks,
    hasDefinitions: Object.keys(tokens.links).length > 0,
  };
}
