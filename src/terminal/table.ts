import { printable } from './printable.ts';
import type { Look, Style } from './style.ts';
import { clip, widthOf } from './text.ts';

/** Text of a cell, optionally with a style. */
export type TableCell = string | readonly [style: Style, text: string];

export interface TableColumn {
  readonly title: string;
  readonly align?: 'right';
  /** The column can shrink to this width when the terminal is narrow. */
  readonly least?: number;
}

const between = 2;

const textOf = (cell: TableCell | undefined): string =>
  printable(typeof cell === 'string' ? cell : (cell?.[1] ?? ''));

/** Width of each column that fits its title and all its cells. */
export const widthsFor = (
  columns: readonly Pick<TableColumn, 'title'>[],
  rows: readonly (readonly TableCell[])[],
): number[] =>
  columns.map(({ title }, at) =>
    Math.max(widthOf(printable(title)), ...rows.map((row) => widthOf(textOf(row[at])))),
  );

/** Total width of columns, two spaces apart. */
export const lineWidth = (widths: readonly number[]): number =>
  widths.reduce((sum, each) => sum + each + between, -between);

/** Formats a row. Each cell is cut or padded to the width of its column. */
export function tableLine(
  columns: readonly TableColumn[],
  widths: readonly number[],
  cells: readonly TableCell[],
  { paint }: Look,
  style?: Style,
): string {
  return columns
    .map(({ align }, at) => {
      const cell = cells[at];
      const text = clip(textOf(cell), widths[at] ?? 0);
      const room = ' '.repeat(Math.max(0, (widths[at] ?? 0) - widthOf(text)));
      const painted = style ?? (typeof cell === 'string' ? undefined : cell?.[0]);
      const shown = painted === undefined ? text : paint(painted, text);
      const last = at === columns.length - 1;
      return align === 'right' ? room + shown : shown + (last ? '' : room);
    })
    .join(' '.repeat(between))
    .trimEnd();
}

export const headLine = (columns: readonly TableColumn[], widths: readonly number[], look: Look): string =>
  tableLine(
    columns,
    widths,
    columns.map((column) => column.title),
    look,
    'dim',
  );

/** Formats a table with titles, two spaces apart. Columns with a minimum width shrink to fit the terminal. */
export function table(
  columns: readonly TableColumn[],
  rows: readonly (readonly TableCell[])[],
  look: Look,
  indent = '',
): string[] {
  const widths = widthsFor(columns, rows);
  let excess = indent.length + lineWidth(widths) - look.width;
  for (const [at, { least }] of columns.entries()) {
    if (least === undefined || excess <= 0) continue;
    const now = widths[at] ?? 0;
    widths[at] = Math.max(Math.min(least, now), now - excess);
    excess -= now - (widths[at] ?? 0);
  }
  const lines = [
    headLine(columns, widths, look),
    ...rows.map((row) => tableLine(columns, widths, row, look)),
  ];
  return lines.map((line) => indent + line);
}
