import { printable } from './printable.ts';

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
const wide =
  /\p{Emoji_Presentation}|\ufe0f|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|[\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]/u;
const invisible = /^[\p{M}\p{Cf}]+$/u;
const tabStop = 4;

interface TextCell {
  readonly text: string;
  /** Width in columns. */
  readonly width: number;
  /** Index in the line, in UTF-16 units. */
  readonly index: number;
  /** Length in the line, in UTF-16 units. */
  readonly length: number;
  /** Column at which it begins. */
  readonly column: number;
}

/** Splits a line into cells as a terminal shows them: tabs become spaces, wide characters take two columns. */
export function splitCells(line: string): readonly TextCell[] {
  const cells: TextCell[] = [];
  let column = 0;
  for (const { segment, index } of graphemes.segment(line)) {
    let text = segment;
    let width = 1;
    if (segment === '\t') {
      width = tabStop - (column % tabStop);
      text = ' '.repeat(width);
    } else if (invisible.test(segment)) width = 0;
    else if (wide.test(segment)) width = 2;
    else text = printable(segment);
    cells.push({ text, width, index, length: segment.length, column });
    column += width;
  }
  return cells;
}

/** Width of a text in columns. */
export const displayWidth = (text: string): number =>
  // Fast path: most text is ASCII.
  /^[\x20-\x7e]*$/.test(text) ? text.length : splitCells(text).reduce((sum, cell) => sum + cell.width, 0);

/** Cuts a text to a width. A text that was cut ends in an ellipsis. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  return `${splitCells(text)
    .filter((cell) => cell.column + cell.width < width)
    .map((cell) => cell.text)
    .join('')}…`;
}

/** Wraps a text into lines of at most `width` columns. Lines after the first are indented. */
export function wrapText(text: string, width: number, indent: string): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && displayWidth(line) + 1 + displayWidth(word) > width) {
      lines.push(line);
      line = `${indent}${word}`;
    } else line = line === '' && lines.length === 0 ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
