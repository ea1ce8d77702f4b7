import type { ResultColumn } from '../observe/types.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { tableHeading, lineWidth, type TableColumn, tableLine, columnWidths } from '../terminal/table.ts';
import { displayWidth } from '../terminal/text.ts';
import { formatCell, columnTitle } from './cells.ts';

/** Minimum width to which a text column shrinks. */
const minTextWidth = 8;

interface VisibleColumn extends TableColumn {
  /** Index of the column in the rows. */
  readonly index: number;
  readonly result: ResultColumn;
}

/** Prints rows as a table. Rows that are added later use the same columns. */
export class ResultTable {
  readonly #style: OutputStyle;
  #columns: readonly VisibleColumn[] | undefined;
  #widths: readonly number[] = [];
  /** Columns that do not fit on the terminal. */
  #hidden: readonly string[] = [];

  constructor(style: OutputStyle) {
    this.#style = style;
  }

  get hidden(): readonly string[] {
    return this.#hidden;
  }

  /** @param asOf time of the response; times are formatted relative to it */
  lines(columns: readonly ResultColumn[], rows: readonly (readonly unknown[])[], asOf: string): string[] {
    const isFirst = this.#columns === undefined;
    if (isFirst && rows.length === 0) return [];
    const cells = rows.map((row) => columns.map((column, index) => formatCell(column, row[index], asOf)));
    this.#columns ??= this.#chooseColumns(columns, cells);
    const shown = this.#columns;
    const visibleCells = cells.map((row) => shown.map(({ index }) => row[index] ?? ''));
    const needed = columnWidths(shown, visibleCells).map((width, index) =>
      Math.max(width, this.#widths[index] ?? 0),
    );
    this.#widths = needed;
    const widths = shrinkColumns(shown, needed, this.#style.width);
    return [
      ...(isFirst ? [tableHeading(shown, widths, this.#style)] : []),
      ...visibleCells.map((row) => tableLine(shown, widths, row, this.#style)),
    ];
  }

  /**
   * Chooses the columns that fit when texts shrink. Dropped first: columns without values, then columns with a single
   * value, then the last columns.
   */
  #chooseColumns(columns: readonly ResultColumn[], cells: readonly (readonly string[])[]): VisibleColumn[] {
    const all = columns.map((result, index): VisibleColumn => {
      const title = columnTitle(result);
      const isNumeric = result.type === 'integer' || result.type === 'number';
      const canShrink = result.type === 'text' || result.type === 'json';
      return {
        index,
        result,
        title,
        ...(isNumeric ? { align: 'right' as const } : {}),
        ...(canShrink ? { minWidth: Math.max(minTextWidth, displayWidth(title)) } : {}),
      };
    });
    const needed = columnWidths(all, cells);
    const minWidthOf = ({ minWidth: least = Infinity, index }: VisibleColumn) =>
      Math.min(least, needed[index] ?? 0);
    const priority = ({ index }: VisibleColumn) => {
      if (cells.every((row) => row[index] === '-')) return 0;
      return cells.length > 1 && cells.every((row) => row[index] === cells[0]?.[index]) ? 1 : 2;
    };
    const kept = all.toSorted((a, b) => priority(b) - priority(a));
    while (kept.length > 1 && lineWidth(kept.map(minWidthOf)) > this.#style.width) kept.pop();
    const shown = all.filter((column) => kept.includes(column));
    this.#hidden = all.filter((column) => !kept.includes(column)).map(({ result }) => result.name);
    return shown;
  }
}

/** Shrinks the widest text columns first. */
function shrinkColumns(
  columns: readonly VisibleColumn[],
  needed: readonly number[],
  width: number,
): number[] {
  const widthsAt = (most: number) =>
    needed.map((each, n) => Math.min(each, Math.max(most, columns[n]?.minWidth ?? each)));
  let most = Math.max(0, ...needed);
  while (most > minTextWidth && lineWidth(widthsAt(most)) > width) most -= 1;
  return widthsAt(most);
}
