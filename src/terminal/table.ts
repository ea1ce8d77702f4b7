import { printable } from './printable.ts';
import type { OutputStyle, Style } from './style.ts';
import { truncate, displayWidth } from './text.ts';

/** Text of a cell, optionally with a style. */
export type TableCell = string | readonly [style: Style, text: string];

export interface TableColumn {
  readonly title: string;
  readonly align?: 'right';
  /** The column can shrink to this width when the terminal is narrow. */
  readonly minWidth?: number;
}

const columnGap = 2;

const textOf = (cell: TableCell | undefined): string =>
  printable(typeof cell === 'string' ? cell : (cell?.[1] ?? ''));

/** Width of each column that fits its title and all its cells. */
export const columnWidths = (
  columns: readonly Pick<TableColumn, 'title'>[],
  rows: readonly (readonly TableCell[])[],
): number[] =>
  columns.map(({ title }, at) =>
    Math.max(displayWidth(printable(title)), ...rows.map((row) => displayWidth(textOf(row[at])))),
  );

/** Total width of columns, two spaces apart. */
export const lineWidth = (widths: readonly number[]): number =>
  widths.reduce((sum, columnWidth) => sum + columnWidth + columnGap, -columnGap);

/** Formats a row. Each cell is cut or padded to the width of its column. */
export function tableLine(
  columns: readonly TableColumn[],
  widths: readonly number[],
  cells: readonly TableCell[],
  { paint }: OutputStyle,
  style?: Style,
): string {
  return columns
    .map(({ align }, at) => {
      const cell = cells[at];
      const text = truncate(textOf(cell), widths[at] ?? 0);
      const padding = ' '.repeat(Math.max(0, (widths[at] ?? 0) - displayWidth(text)));
      const painted = style ?? (typeof cell === 'string' ? undefined : cell?.[0]);
      const shown = painted === undefined ? text : paint(painted, text);
      const last = at === columns.length - 1;
      return align === 'right' ? padding + shown : shown + (last ? '' : padding);
    })
    .join(' '.repeat(columnGap))
    .trimEnd();
}

export const tableHeading = (
  columns: readonly TableColumn[],
  widths: readonly number[],
  style: OutputStyle,
): string =>
  tableLine(
    columns,
    widths,
    columns.map((column) => column.title),
    style,
    'dim',
  );

/** Formats a table with titles, two spaces apart. Columns with a minimum width shrink to fit the terminal. */
export function table(
  columns: readonly TableColumn[],
  rows: readonly (readonly TableCell[])[],
  style: OutputStyle,
  indent = '',
): string[] {
  const widths = columnWidths(columns, rows);
  let excess = indent.length + lineWidth(widths) - style.width;
  for (const [at, { minWidth }] of columns.entries()) {
    if (minWidth === undefined || excess <= 0) continue;
    const currentWidth = widths[at] ?? 0;
    widths[at] = Math.max(Math.min(minWidth, currentWidth), currentWidth - excess);
    excess -= currentWidth - (widths[at] ?? 0);
  }
  const lines = [
    tableHeading(columns, widths, style),
    ...rows.map((row) => tableLine(columns, widths, row, style)),
  ];
  return lines.map((line) => indent + line);
}
