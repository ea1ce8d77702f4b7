/**
 * Colors, dashes and shapes of series, on the canvas and in the legend. Shapes and dashes do not depend on color
 * vision.
 */
import type { ChartProps, Series } from './types.ts';

const colorCount = 6;

/** CSS variable `--series-N` of a series, by its index unless it names a color. */
export const colorVariable = ({ color }: Series, index: number): string =>
  `--series-${(((color ?? index + 1) - 1 + colorCount) % colorCount) + 1}`;

const drawMode = ({ draw = 'line' }: Series) => draw;

/** Index of a series among those that are drawn the same way. */
const styleIndex = (series: readonly Series[], index: number): number => {
  const one = series[index];
  return one === undefined
    ? 0
    : series.slice(0, index).filter((other) => drawMode(other) === drawMode(one)).length;
};

const dashes: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
export const dashOf = (series: readonly Series[], index: number): readonly number[] =>
  dashes[styleIndex(series, index) % dashes.length] ?? [];

const shapes = ['circle', 'square', 'diamond', 'triangle'] as const;
export type Shape = (typeof shapes)[number];
export const shapeOf = (series: readonly Series[], index: number): Shape =>
  shapes[styleIndex(series, index) % shapes.length] ?? 'circle';

/** Corners of a shape around 0, 0; a circle has none. */
export function cornersOf(shape: Shape, radius: number): readonly (readonly [x: number, y: number])[] {
  const r = radius;
  switch (shape) {
    case 'circle':
      return [];
    case 'square':
      return [
        [-r * 0.9, -r * 0.9],
        [r * 0.9, -r * 0.9],
        [r * 0.9, r * 0.9],
        [-r * 0.9, r * 0.9],
      ];
    case 'diamond':
      return [
        [0, -r * 1.25],
        [r * 1.25, 0],
        [0, r * 1.25],
        [-r * 1.25, 0],
      ];
    case 'triangle':
      return [
        [0, -r * 1.2],
        [r * 1.15, r * 0.9],
        [-r * 1.15, r * 0.9],
      ];
  }
}

/** Formats a value without floating-point noise: neither `0.30000000000000004` nor `0.000000`. */
export function formatValue(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return Number(value.toPrecision(3)).toExponential();
  if (size >= 1e4) return compact.format(value);
  return significant.format(value);
}
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 4 });
const significant = new Intl.NumberFormat('en', { maximumSignificantDigits: 4 });

const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'medium' });

/** Formats a value of the x axis. */
export function formatX({ xKind, xNames }: ChartProps, x: number): string {
  if (xNames) return xNames[x] ?? '';
  return xKind === 'time' ? times.format(x) : formatValue(x);
}

/** Formats a value and its band. */
export function formatPoint({ values, band }: Series, index: number): string {
  const value = values[index];
  if (value === null || value === undefined) return '';
  const [low, high] = [band?.low[index], band?.high[index]];
  const range =
    low === null || low === undefined || high === null || high === undefined
      ? ''
      : ` (${formatValue(low)} to ${formatValue(high)})`;
  return `${formatValue(value)}${range}`;
}
