import { printable } from '../../terminal/printable.ts';

/** Formats a table with headings. Each column is as wide as its widest cell; the last column is not padded. */
export function formatTable(headings: readonly string[], cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map(printable));
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ');
  return [headings, ...rows].map((row) => `${line(row).trimEnd()}\n`).join('');
}
