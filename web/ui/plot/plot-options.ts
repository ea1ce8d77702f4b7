import type uPlot from 'uplot';
import type { ChartProps } from './types.ts';
import { type DrawnSeries, drawBackground, drawMarks } from './draw.ts';
import { colorVariable, dashOf, formatValue, shapeOf } from './series-style.ts';

/** Chart data sorted by x, without values that a log axis cannot show. */
export interface SortedData {
  readonly x: readonly number[];
  readonly series: ChartProps['series'];
  /** Index into the props' arrays for each entry. */
  readonly from: readonly number[];
}

export function sortData({ x, series, xKind, yKind }: ChartProps): SortedData {
  const from = x
    .map((_, index) => index)
    .filter((index) => Number.isFinite(x[index]) && (xKind !== 'log' || (x[index] ?? 0) > 0))
    .sort((a, b) => (x[a] ?? 0) - (x[b] ?? 0));
  const pick = (values: readonly (number | null)[]) =>
    from.map((index) => {
      const value = values[index] ?? null;
      return value === null || !Number.isFinite(value) || (yKind === 'log' && value <= 0) ? null : value;
    });
  return {
    from,
    x: from.map((index) => x[index] ?? 0),
    series: series.map((one) => ({
      ...one,
      values: pick(one.values),
      ...(one.band ? { band: { low: pick(one.band.low), high: pick(one.band.high) } } : {}),
    })),
  };
}

/** Columns for uPlot. A band adds two hidden columns, so that the scale includes it. */
export const alignedData = ({ x, series }: SortedData): uPlot.AlignedData => [
  [...x],
  ...series.flatMap(({ values, band }) => [[...values], ...(band ? [[...band.low], [...band.high]] : [])]),
];

/** @param data current data; it may change during the life of the plot */
export function plotOptions(
  props: ChartProps,
  data: () => SortedData,
  size: { readonly width: number; readonly height: number },
  onCursor: (plot: uPlot) => void,
): uPlot.Options {
  const {
    xKind = 'number',
    yKind = 'number',
    xNames,
    xLabel,
    yLabel,
    series,
    startsAtZero: fromZero,
  } = props;
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const font = `12px ${token('--sans') || 'sans-serif'}`;
  const drawnSeries = (): DrawnSeries[] =>
    data().series.map((one, index, all) => ({
      series: one,
      index,
      color: token(colorVariable(one, index)),
      shape: shapeOf(all, index),
    }));
  const axis = {
    stroke: token('--muted'),
    font,
    labelFont: font,
    labelSize: 20,
    labelGap: 2,
    grid: { stroke: token('--line'), width: 1 },
    ticks: { stroke: token('--line'), width: 1, size: 5 },
  };
  const decadeGrid = {
    ...axis.grid,
    filter: (_: uPlot, splits: number[]) =>
      splits.map((value) => (Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? value : null)),
  };
  const hasBars = series.some(({ draw }) => draw === 'bars');
  const includesZero = fromZero === true || hasBars;
  const hasRotatedNames = xNames !== undefined && !namesFit(xNames, size.width, font);
  return {
    ...size,
    ms: 1,
    padding: [10, 14, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    scales: {
      x: {
        time: xKind === 'time',
        ...(xKind === 'log' ? logScale : {}),
        ...(xNames ? { range: [-0.5, xNames.length - 0.5] as [number, number] } : {}),
        ...(!xNames && xKind !== 'log' && hasBars
          ? { range: (_: uPlot, least: number, most: number) => barRange(data().x, least, most) }
          : {}),
      },
      y: {
        ...(yKind === 'log' ? logScale : {}),
        ...(yKind === 'number'
          ? {
              range: {
                min: { pad: 0.1, soft: 0, mode: includesZero ? 1 : 3 },
                max: { pad: 0.1, soft: 0, mode: includesZero ? 1 : 3 },
              },
            }
          : {}),
      },
    },
    axes: [
      {
        ...axis,
        label: xLabel,
        ...(xKind === 'log' ? { grid: decadeGrid } : {}),
        ...(xNames
          ? {
              splits: () => xNames.map((_, index) => index),
              values: (_: uPlot, splits: number[]) => splits.map((at) => truncateName(xNames[at] ?? '')),
              grid: { show: false },
              ...(hasRotatedNames ? { rotate: 40, size: 84 } : { size: 30 }),
            }
          : {
              size: xKind === 'time' ? 44 : 30,
              values: xKind === 'time' ? timeLabels : valueLabels,
              space: xKind === 'time' ? 70 : 55,
              ...(xKind === 'number' && data().x.every(Number.isInteger) ? { incrs: integerSteps } : {}),
            }),
      },
      {
        ...axis,
        label: yLabel,
        values: valueLabels,
        size: axisWidth,
        space: 34,
        ...(yKind === 'log' ? { grid: decadeGrid } : {}),
      },
    ],
    series: [
      {},
      ...series.flatMap((one, index): uPlot.Series[] => {
        const isLine = (one.draw ?? 'line') === 'line';
        const color = token(colorVariable(one, index));
        const hidden = { paths: () => null, points: { show: false } };
        return [
          {
            label: one.name,
            stroke: color,
            width: 2,
            pxAlign: 0,
            dash: [...dashOf(series, index)],
            ...(isLine
              ? { points: { show: true, filter: isolatedPoints, size: 6, fill: color, stroke: color } }
              : hidden),
          },
          ...(one.band ? [hidden, hidden] : []),
        ];
      }),
    ],
    hooks: {
      drawAxes: [(plot) => drawBackground(plot, data().x, drawnSeries())],
      draw: [(plot) => drawMarks(plot, data().x, drawnSeries(), token('--raised'))],
      setCursor: [onCursor],
    },
  };
}

// oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- uPlot's enum exists only as a type
const logScale: { readonly distr: uPlot.Scale.Distr } = { distr: 3 };

const valueLabels = (_: uPlot, splits: (number | null)[]): string[] =>
  splits.map((value) => (value === null ? '' : formatValue(value)));

/** Range of the x axis in which the first and the last bar fit. */
function barRange(x: readonly number[], least: number, most: number): [number, number] {
  const gaps = x.slice(1).map((one, at) => one - (x[at] ?? one));
  const half = Math.min(...gaps.filter((gap) => gap > 0), Math.max(1, most - least)) / 2;
  return [least - half, most + half];
}

/** Axis steps for integer data. */
const integerSteps = Array.from({ length: 12 }, (_, power) =>
  [1, 2, 5].map((digit) => digit * 10 ** power),
).flat();

/** Axis labels of times in the user's locale. The first label and each new day also show the date. */
function timeLabels(_: uPlot, splits: number[], __: number, ___: number, step: number): string[] {
  const day = (at: number) => days.format(at);
  const time = step < 60_000 ? seconds : minutes;
  return splits.map((at, index) => {
    if (step >= 86_400_000) return day(at);
    const before = splits[index - 1];
    const isNewDay = before === undefined || day(before) !== day(at);
    return isNewDay ? `${time.format(at)}\n${day(at)}` : time.format(at);
  });
}
const days = new Intl.DateTimeFormat(undefined, { dateStyle: 'short' });
const minutes = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const seconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** Width of the y axis, by its longest label. */
function axisWidth(plot: uPlot, values: string[] | null): number {
  if (!values) return 40;
  const maxLength = values.reduce((most, value) => Math.max(most, value.length), 0);
  return Math.max(34, 14 + maxLength * 7);
}

/** Indices of values without neighbors, which are drawn as dots. */
function isolatedPoints(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const isAbsent = (at: number) => (values[at] ?? null) === null;
  return [...values.keys()].filter((at) => !isAbsent(at) && isAbsent(at - 1) && isAbsent(at + 1));
}

const truncateName = (name: string): string => (name.length > 18 ? `${name.slice(0, 17)}…` : name);

function namesFit(names: readonly string[], width: number, font: string): boolean {
  const context = document.createElement('canvas').getContext('2d');
  if (!context) return true;
  context.font = font;
  const room = (width - 80) / Math.max(1, names.length) - 8;
  return names.every((name) => context.measureText(truncateName(name)).width <= room);
}
