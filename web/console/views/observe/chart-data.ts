import { formatTime } from '../../../ui/format.ts';
import type { Query, ResultColumn } from './types.ts';

export interface ChartChoice {
  /** Column of the x axis; empty: the row number. */
  readonly x: string;
  readonly y: string;
  readonly draw: 'line' | 'points' | 'bars';
}
/** Maximum number of lines that can be told apart. */
export const maxLines = 6;

const isNumeric = ({ type }: ResultColumn) => type === 'integer' || type === 'number';
export const numericColumns = (columns: readonly ResultColumn[]) => columns.filter(isNumeric);
export const axisColumns = (columns: readonly ResultColumn[]) =>
  columns.filter((column) => column.type === 'time' || isNumeric(column));

/** Default chart of a result; undefined when it has no numeric column. */
export function defaultChart(columns: readonly ResultColumn[]): ChartChoice | undefined {
  const time = columns.find(({ type }) => type === 'time');
  const [first] = numericColumns(columns);
  // Durations, sizes and costs are preferred to counts.
  const column =
    numericColumns(columns).find(({ unit }) => /^(?:ms|tokens|bytes|nanousd)/.test(unit ?? '')) ?? first;
  if (!column) return undefined;
  return { x: time?.name ?? '', y: column.name, draw: time ? 'line' : 'bars' };
}

/** Props for `Chart`, and the number of omitted lines. */
interface ChartData {
  readonly label: string;
  readonly x: readonly number[];
  readonly xKind?: 'number' | 'time';
  readonly xNames?: readonly string[];
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly ChartLine[];
  /** Number of lines that are not drawn. */
  readonly omitted: number;
}
interface ChartLine {
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
): ChartData | undefined {
  const at = (name: string) => columns.findIndex((column) => column.name === name);
  const y = columns[at(choice.y)];
  if (!y) return undefined;
  const groupNames = (query.group_by ?? []).map((group) =>
    typeof group === 'string' ? group : group.column,
  );
  const groupColumns = groupNames.filter((name) => name !== choice.x && at(name) >= 0);
  const nameOf = (row: readonly unknown[]) =>
    groupColumns.map((name) => displayName(row[at(name)])).join(' · ');
  const yLabel = y.unit === undefined ? y.name : `${y.name} (${y.unit})`;
  const x = columns[at(choice.x)];
  const labels = { yLabel, label: `${y.name} of ${rows.length} rows${x ? ` by ${x.name}` : ''}` };
  if (!x) {
    const firstText = columns.find(({ type }) => type === 'text' || type === 'flag');
    const names = rows.map((row, index) =>
      groupColumns.length > 0
        ? nameOf(row)
        : firstText
          ? displayName(row[at(firstText.name)])
          : String(index + 1),
    );
    return {
      ...labels,
      x: rows.map((_, index) => index),
      xNames: names,
      xLabel: groupColumns.length > 0 ? groupColumns.join(', ') : (firstText?.name ?? 'row'),
      series: [{ name: y.name, draw: choice.draw, values: rows.map((row) => numberOf(row[at(y.name)])) }],
      omitted: 0,
    };
  }
  const xValue = (row: readonly unknown[]): number | null =>
    x.type === 'time' ? Date.parse(String(row[at(x.name)])) || null : numberOf(row[at(x.name)]);
  const rowsWithX = rows.flatMap((row) => {
    const xOfRow = xValue(row);
    return xOfRow === null ? [] : [{ xOfRow, row }];
  });
  const axis = {
    ...labels,
    xKind: x.type === 'time' ? ('time' as const) : ('number' as const),
    xLabel: x.unit === undefined ? x.name : `${x.name} (${x.unit})`,
  };
  if (groupColumns.length === 0)
    return {
      ...axis,
      x: rowsWithX.map(({ xOfRow }) => xOfRow),
      series: [
        { name: y.name, draw: choice.draw, values: rowsWithX.map(({ row }) => numberOf(row[at(y.name)])) },
      ],
      omitted: 0,
    };
  const xValues = [...new Set(rowsWithX.map(({ xOfRow }) => xOfRow))].sort((a, b) => a - b);
  const lines = new Map<string, (number | null)[]>();
  for (const { xOfRow, row } of rowsWithX) {
    const name = nameOf(row);
    const values = lines.get(name) ?? xValues.map(() => null);
    lines.set(name, values);
    values[xValues.indexOf(xOfRow)] = numberOf(row[at(y.name)]);
  }
  const lineTotal = (values: readonly (number | null)[]) =>
    values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  const series: ChartLine[] = [...lines]
    .sort(([, a], [, b]) => lineTotal(b) - lineTotal(a))
    .slice(0, maxLines)
    .map(([name, values]) => ({ name, draw: choice.draw, values }));
  return { ...axis, x: xValues, series, omitted: lines.size - series.length };
}

function displayName(value: unknown): string {
  if (value === null || value === undefined || value === '') return 'none';
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT.*Z$/.test(value)) return formatTime(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}
