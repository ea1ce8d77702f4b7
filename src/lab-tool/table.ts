import type { Look, Style } from './style.ts';
import { clip, printable, widthOf } from './text.ts';

/** A cell: its text, with a colour where it needs one. */
export type TableCell = string | readonly [style: Style, text: string];

export interface TableColumn {
  readonly title: string;
  readonly align?: 'right';
  /** Gives way when the terminal is narrow, down to `least` columns. */
  readonly least?: number;
}

const textOf = (cell: TableCell | undefined): string =>
  printable(typeof cell === 'string' ? cell : (cell?.[1] ?? ''));

/** Rows under their titles, two spaces apart. Columns with `least` shrink to fit the terminal. */
export function table(
  columns: readonly TableColumn[],
  rows: readonly (readonly TableCell[])[],
  { paint, width }: Look,
  indent = '',
): string[] {
  const widths = columns.map((column, at) =>
    Math.max(widthOf(column.title), ...rows.map((row) => widthOf(textOf(row[at])))),
  );
  let excess = indent.length + widths.reduce((sum, each) => sum + each + 2, -2) - width;
  for (const [at, { least }] of columns.entries()) {
    if (least === undefined || excess <= 0) continue;
    const now = widths[at] ?? 0;
    widths[at] = Math.max(Math.min(least, now), now - excess);
    excess -= now - (widths[at] ?? 0);
  }
  const line = (cells: readonly TableCell[], style?: Style) =>
    (
      indent +
      columns
        .map(({ align }, at) => {
          const cell = cells[at];
          const text = clip(textOf(cell), widths[at] ?? 0);
          const room = ' '.repeat(Math.max(0, (widths[at] ?? 0) - widthOf(text)));
          const painted = style ?? (typeof cell === 'string' ? undefined : cell?.[0]);
          const shown = painted === undefined ? text : paint(painted, text);
          const last = at === columns.length - 1;
          return align === 'right' ? room + shown : shown + (last ? '' : room);
        })
        .join('  ')
    ).trimEnd();
  return [
    line(
      columns.map((column) => column.title),
      'dim',
    ),
    ...rows.map((row) => line(row)),
  ];
}
