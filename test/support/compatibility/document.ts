import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

const document = fileURLToPath(new URL('../../../docs/compatibility.md', import.meta.url));

/** Markdown of a table, padded as the formatter does it; the first line has the names of the columns. */
export function writeTable(lines: readonly (readonly string[])[]): string {
  const [head = [], ...body] = lines;
  const widths = head.map((_, column) => Math.max(3, ...lines.map((line) => line[column]?.length ?? 0)));
  const write = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [write(head), write(widths.map((width) => '-'.repeat(width))), ...body.map(write)].join('\n');
}

/**
 * Expects this table between the marks `<!-- name -->` and `<!-- end -->` of docs/compatibility.md, and prints it.
 * `WRITE_TABLES=1` writes it there instead.
 */
export function checkDocumentedTable(name: string, table: string): void {
  const text = readFileSync(document, 'utf8');
  const [before, mark, after, ...more] = text.split(
    new RegExp(`(<!-- ${name} -->\\n\\n)[^]*?(?=\\n\\n<!-- end -->)`),
  );
  expect([mark, more]).toEqual([`<!-- ${name} -->\n\n`, []]);
  const now = [before, mark, table, after].join('');
  if (process.env['WRITE_TABLES']) writeFileSync(document, now);
  else expect(text).toBe(now);
  process.stdout.write(`\n${table}\n`);
}
