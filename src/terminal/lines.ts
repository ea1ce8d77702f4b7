import { printable } from './printable.ts';

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** A text in one line: line breaks and tabs are shown as `\n` and `\t`, other control characters are replaced. */
export const printableLine = (text: string): string =>
  printable(text.replaceAll(/[\n\r\t]/g, (character) => escapes[character] ?? ''));

/** A text of several lines without control characters. */
export const printableLines = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => line.split('\t').map(printable).join('\t'))
    .join('\n');
