import { formatTime } from '../../parts/format.ts';
import type { Query, ResultColumn } from './types.ts';

export interface ChartChoice {
  /** Column of the x axis; empty: the row number. */
  readonly x: string;
  readonly y: string;
  readonly draw: 'line' | 'points' | 'bars';
}
/** Maximum number of lines that can be told apart. */
export const mostLines = 6;

const isFigure = ({ type }: ResultColumn) => type === 'integer' || type === 'number';
export const figures = (columns: readonly ResultColumn[]) => columns.filter(isFigure);
export const axes = (columns: readonly ResultColumn[]) =>
  columns.filter((column) => column.type === 'time' || isFigure(column));

/** Default chart of a result; undefined when it has no numeric column. */
export function usualChoice(columns: readonly ResultColumn[]): ChartChoice | undefined {
  const time = columns.find(({ type }) => type === 'time');
  const [first] = figures(columns);
  // Durations, sizes and costs are preferred to counts.
  const figure =
    figures(columns).find(({ unit }) => /^(?:ms|tokens|bytes|nanousd)/.test(unit ?? '')) ?? first;
  if (!figure) return undefined;
  return { x: time?.name ?? '', y: figure.name, draw: time ? 'line' : 'bars' };
}

/** Props for `Chart`, and the number of omitted lines. */
interface Drawn {
  readonly label: string;
  readonly x: readonly number[];
  readonly xKind?: 'number' | 'time';
  readonly xNames?: readonly string[];
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly Line[];
  /** Number of lines that are not drawn. */
  readonly omitted: number;
}
interface Line {
  readonly name: string;
  readonly draw: ChartChoice['draw'];
  readonly values: readonly (number | null)[];
}

const numberOf = (value: unknown): number | null => {
  if (value === null || value === undefined || typeof value === 'boolean') return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
};

/** Converts rows to series: one per combination of the group columns other than `x`. */
export function chartOf(
  query: Pick<Query, 'group_by'>,
  columns: readonly ResultColumn[],
  rows: readonly (readonly unknown[])[],
  choice: ChartChoice,
): Drawn | undefined {
  const at = (name: string) => columns.findIndex((column) => column.name === name);
  const y = columns[at(choice.y)];
  if (!y) return undefined;
  const grouped = (query.group_by ?? []).map((group) => (typeof group === 'string' ? group : group.column));
  const named = grouped.filter((name) => name !== choice.x && at(name) >= 0);
  const nameOf = (row: readonly unknown[]) => named.map((name) => shownName(row[at(name)])).join(' · ');
  const yLabel = y.unit === undefined ? y.name : `${y.name} (${y.unit})`;
  const x = columns[at(choice.x)];
  const about = { yLabel, label: `${y.name} of ${rows.length} rows${x ? ` by ${x.name}` : ''}` };
  if (!x) {
    const firstText = columns.find(({ type }) => type === 'text' || type === 'flag');
    const names = rows.map((row, index) =>
      named.length > 0 ? nameOf(row) : firstText ? shownName(row[at(firstText.name)]) : String(index + 1),
    );
    return {
      ...about,
      x: rows.map((_, index) => index),
      xNames: names,
      xLabel: named.length > 0 ? named.join(', ') : (firstText?.name ?? 'row'),
      series: [{ name: y.name, draw: choice.draw, values: rows.map((row) => numberOf(row[at(y.name)])) }],
      omitted: 0,
    };
  }
  const place = (row: readonly unknown[]): number | null =>
    x.type === 'time' ? Date.parse(String(row[at(x.name)])) || null : numberOf(row[at(x.name)]);
  const placed = rows.flatMap((row) => {
    const where = place(row);
    return where === null ? [] : [{ where, row }];
  });
  const axis = {
    ...about,
    xKind: x.type === 'time' ? ('time' as const) : ('number' as const),
    xLabel: x.unit === undefined ? x.name : `${x.name} (${x.unit})`,
  };
  if (named.length === 0)
    return {
      ...axis,
      x: placed.map(({ where }) => where),
      series: [
        { name: y.name, draw: choice.draw, values: placed.map(({ row }) => numberOf(row[at(y.name)])) },
      ],
      omitted: 0,
    };
  const places = [...new Set(placed.map(({ where }) => where))].sort((a, b) => a - b);
  const lines = new Map<string, (number | null)[]>();
  for (const { where, row } of placed) {
    const name = nameOf(row);
    const values = lines.get(name) ?? places.map(() => null);
    lines.set(name, values);
    values[places.indexOf(where)] = numberOf(row[at(y.name)]);
  }
  const sizeOf = (values: readonly (number | null)[]) =>
    values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  const series: Line[] = [...lines]
    .sort(([, a], [, b]) => sizeOf(b) - sizeOf(a))
    .slice(0, mostLines)
    .map(([name, values]) => ({ name, draw: choice.draw, values }));
  return { ...axis, x: places, series, omitted: lines.size - series.length };
}

function shownName(value: unknown): string {
  if (value === null || value === undefined || value === '') return 'none';
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT.*Z$/.test(value)) return formatTime(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}
