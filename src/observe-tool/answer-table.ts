import type { ShownResult } from '../observe/types.ts';
import type { Look } from '../terminal/style.ts';
import { headLine, lineWidth, type TableColumn, tableLine, widthsFor } from '../terminal/table.ts';
import { widthOf } from '../terminal/text.ts';
import { cellOf, headOf } from './cells.ts';

/** Minimum width to which a text column shrinks. */
const leastText = 8;

interface Shown extends TableColumn {
  /** Index of the column in the rows. */
  readonly at: number;
  readonly result: ShownResult;
}

/** Prints rows as a table. Rows that are added later use the same columns. */
export class AnswerTable {
  readonly #look: Look;
  #columns: readonly Shown[] | undefined;
  #widths: readonly number[] = [];
  /** Columns that do not fit on the terminal. */
  #hidden: readonly string[] = [];

  constructor(look: Look) {
    this.#look = look;
  }

  get hidden(): readonly string[] {
    return this.#hidden;
  }

  /** @param asOf time of the response; times are formatted relative to it */
  lines(columns: readonly ShownResult[], rows: readonly (readonly unknown[])[], asOf: string): string[] {
    const isFirst = this.#columns === undefined;
    if (isFirst && rows.length === 0) return [];
    const cells = rows.map((row) => columns.map((column, at) => cellOf(column, row[at], asOf)));
    this.#columns ??= this.#chosen(columns, cells);
    const shown = this.#columns;
    const picked = cells.map((row) => shown.map(({ at }) => row[at] ?? ''));
    const needed = widthsFor(shown, picked).map((width, at) => Math.max(width, this.#widths[at] ?? 0));
    this.#widths = needed;
    const widths = narrowed(shown, needed, this.#look.width);
    return [
      ...(isFirst ? [headLine(shown, widths, this.#look)] : []),
      ...picked.map((row) => tableLine(shown, widths, row, this.#look)),
    ];
  }

  /**
   * Chooses the columns that fit when texts shrink. Dropped first: columns without values, then columns with a single
   * value, then the last columns.
   */
  #chosen(columns: readonly ShownResult[], cells: readonly (readonly string[])[]): Shown[] {
    const all = columns.map((result, at): Shown => {
      const title = headOf(result);
      const isFigure = result.type === 'integer' || result.type === 'number';
      const gives = result.type === 'text' || result.type === 'json';
      return {
        at,
        result,
        title,
        ...(isFigure ? { align: 'right' as const } : {}),
        ...(gives ? { least: Math.max(leastText, widthOf(title)) } : {}),
      };
    });
    const needed = widthsFor(all, cells);
    const leastOf = ({ least = Infinity, at }: Shown) => Math.min(least, needed[at] ?? 0);
    const worth = ({ at }: Shown) => {
      if (cells.every((row) => row[at] === '-')) return 0;
      return cells.length > 1 && cells.every((row) => row[at] === cells[0]?.[at]) ? 1 : 2;
    };
    const leaving = all.toSorted((a, b) => worth(b) - worth(a));
    while (leaving.length > 1 && lineWidth(leaving.map(leastOf)) > this.#look.width) leaving.pop();
    const shown = all.filter((column) => leaving.includes(column));
    this.#hidden = all.filter((column) => !leaving.includes(column)).map(({ result }) => result.name);
    return shown;
  }
}

/** Shrinks the widest text columns first. */
function narrowed(columns: readonly Shown[], needed: readonly number[], width: number): number[] {
  const at = (most: number) =>
    needed.map((each, n) => Math.min(each, Math.max(most, columns[n]?.least ?? each)));
  let most = Math.max(0, ...needed);
  while (most > leastText && lineWidth(at(most)) > width) most -= 1;
  return at(most);
}
