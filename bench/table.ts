/** Formats a table with padded columns; the first is left-aligned, the others right-aligned. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}

/** Formats with about three digits: 1,234 or 56.7 or 0.89. */
export function digits(value: number): string {
  if (value >= 99.95) return Math.round(value).toLocaleString('en');
  return value.toFixed(value >= 9.995 ? 1 : 2);
}

export const percent = (part: number): string => `${(part * 100).toFixed(1)}%`;
export const megabytes = (bytes: number): string => digits(bytes / 1e6);
