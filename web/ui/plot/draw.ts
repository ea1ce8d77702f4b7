/** Draws what uPlot does not: bands, bars, whiskers and points of different shapes. */
import uPlot from 'uplot';
import type { Series } from './types.ts';
import { cornersOf, type Shape } from './series-style.ts';

/** A series sorted by x, with its color and shape. */
export interface DrawnSeries {
  readonly series: Series;
  readonly index: number;
  readonly color: string;
  readonly shape: Shape;
}

type Values = readonly (number | null)[];

/** Draws bands and bars, below the lines. */
export function drawBackground(plot: uPlot, x: readonly number[], drawnSeries: readonly DrawnSeries[]): void {
  const bars = drawnSeries.filter(({ series }) => series.draw === 'bars');
  withClip(plot, (context) => {
    for (const { series, color } of drawnSeries) {
      if (!series.band || (series.draw ?? 'line') !== 'line') continue;
      context.fillStyle = color;
      context.globalAlpha = 0.18;
      for (const run of definedRanges(series.band.low, series.band.high))
        fillBand(plot, context, x, series.band, run);
    }
    context.globalAlpha = 0.85;
    bars.forEach(({ series, color }, place) => {
      context.fillStyle = color;
      const [left, width] = barPosition(plot, x, place, bars.length);
      const baseline = plot.valToPos(Math.max(0, plot.scales['y']?.min ?? 0), 'y', true);
      series.values.forEach((value, at) => {
        if (value === null) return;
        const top = plot.valToPos(value, 'y', true);
        context.fillRect(
          plot.valToPos(x[at] ?? 0, 'x', true) + left,
          Math.min(top, baseline),
          width,
          Math.max(1, Math.abs(baseline - top)),
        );
      });
    });
  });
}

/** Draws whiskers and points, above the lines. Points at the edge are not clipped. */
export function drawMarks(
  plot: uPlot,
  x: readonly number[],
  drawnSeries: readonly DrawnSeries[],
  background: string,
): void {
  const bars = drawnSeries.filter(({ series }) => series.draw === 'bars');
  const context = plot.ctx;
  context.save();
  for (const { series, index, color, shape } of drawnSeries) {
    if ((series.draw ?? 'line') === 'line') continue;
    const [left, width] =
      series.draw === 'bars'
        ? barPosition(
            plot,
            x,
            bars.findIndex((one) => one.index === index),
            bars.length,
          )
        : [0, 0];
    const middle = left + width / 2;
    series.values.forEach((value, at) => {
      if (value === null) return;
      const place = plot.valToPos(x[at] ?? 0, 'x', true) + middle;
      context.strokeStyle = series.draw === 'bars' ? textColor() : color;
      drawWhisker(plot, context, place, series.band?.low[at], series.band?.high[at]);
      if (series.draw !== 'points') return;
      context.fillStyle = color;
      // An outline in the background color separates points that overlap.
      context.strokeStyle = background;
      drawPoint(context, shape, place, plot.valToPos(value, 'y', true));
    });
  }
  context.restore();
}

const textColor = () => getComputedStyle(document.documentElement).getPropertyValue('--text');

function withClip(plot: uPlot, draw: (context: CanvasRenderingContext2D) => void): void {
  const { ctx: context, bbox } = plot;
  context.save();
  context.beginPath();
  context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  context.clip();
  draw(context);
  context.restore();
}

/** Index ranges (both ends inclusive) in which both edges have a value. */
function definedRanges(low: Values, high: Values): (readonly [number, number])[] {
  const ranges: [number, number][] = [];
  low.forEach((value, at) => {
    if (value === null || (high[at] ?? null) === null) return;
    const last = ranges.at(-1);
    if (last && last[1] === at - 1) last[1] = at;
    else ranges.push([at, at]);
  });
  return ranges;
}

function fillBand(
  plot: uPlot,
  context: CanvasRenderingContext2D,
  x: readonly number[],
  { low, high }: { readonly low: Values; readonly high: Values },
  [first, last]: readonly [number, number],
): void {
  const corner = (at: number, values: Values) =>
    context.lineTo(plot.valToPos(x[at] ?? 0, 'x', true), plot.valToPos(values[at] ?? 0, 'y', true));
  context.beginPath();
  for (let at = first; at <= last; at++) corner(at, high);
  for (let at = last; at >= first; at--) corner(at, low);
  context.closePath();
  context.fill();
}

/**
 * Position of a bar when the bars of several series are side by side. @returns offset from the x position, and width,
 * in canvas pixels
 */
function barPosition(
  plot: uPlot,
  x: readonly number[],
  place: number,
  count: number,
): readonly [number, number] {
  let spacing = plot.bbox.width / Math.max(1, x.length);
  for (let at = 1; at < x.length; at++) {
    const gap = plot.valToPos(x[at] ?? 0, 'x', true) - plot.valToPos(x[at - 1] ?? 0, 'x', true);
    if (gap > 0) spacing = Math.min(spacing, gap);
  }
  const all = Math.min(spacing * 0.8, 64 * uPlot.pxRatio * count);
  const width = Math.max(1, all / count);
  return [-all / 2 + place * width, Math.max(1, width - (count > 1 ? uPlot.pxRatio : 0))];
}

function drawWhisker(
  plot: uPlot,
  context: CanvasRenderingContext2D,
  place: number,
  low: number | null | undefined,
  high: number | null | undefined,
): void {
  if (low === null || low === undefined || high === null || high === undefined) return;
  const half = 5 * uPlot.pxRatio;
  const [top, bottom] = [plot.valToPos(high, 'y', true), plot.valToPos(low, 'y', true)];
  context.lineWidth = 2 * uPlot.pxRatio;
  context.beginPath();
  context.moveTo(place, top);
  context.lineTo(place, bottom);
  for (const y of [top, bottom]) {
    context.moveTo(place - half, y);
    context.lineTo(place + half, y);
  }
  context.stroke();
}

function drawPoint(context: CanvasRenderingContext2D, shape: Shape, x: number, y: number): void {
  const radius = 4.5 * uPlot.pxRatio;
  const corners = cornersOf(shape, radius);
  context.beginPath();
  if (corners.length === 0) context.arc(x, y, radius, 0, 2 * Math.PI);
  for (const [dx, dy] of corners) context.lineTo(x + dx, y + dy);
  context.closePath();
  context.lineWidth = uPlot.pxRatio;
  context.fill();
  context.stroke();
}
