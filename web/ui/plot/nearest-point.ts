import type uPlot from 'uplot';
import type { SortedData } from './plot-options.ts';

/** The data point under the cursor. */
export interface HoveredPoint {
  /** Index into the props' arrays. */
  readonly index: number;
  /** Index of the series when a single point was hit: several points may share an x value. */
  readonly series?: number;
  /** Position in CSS pixels of the plot's box. `middle` is half its width. */
  readonly left: number;
  readonly top: number;
  readonly middle: number;
}

/** Hit radius in CSS pixels. */
const hitRadiusPx = 24;

/** Finds points by distance, and lines and bars by their x position. */
export function nearestPoint(plot: uPlot, { x, series, from }: SortedData): HoveredPoint | undefined {
  const { left = -1, top = -1, idx } = plot.cursor;
  if (left < 0 || top < 0) return undefined;
  const offsetLeft = plot.over.offsetLeft;
  const middle = plot.width / 2;
  let best: (HoveredPoint & { readonly distance: number }) | undefined;
  series.forEach(({ values, draw }, at) => {
    if (draw !== 'points') return;
    values.forEach((value, place) => {
      if (value === null) return;
      const [px, py] = [plot.valToPos(x[place] ?? 0, 'x'), plot.valToPos(value, 'y')];
      const distance = Math.hypot(px - left, py - top);
      if (distance > Math.min(hitRadiusPx, best?.distance ?? hitRadiusPx)) return;
      best = {
        index: from[place] ?? 0,
        series: at,
        left: px + offsetLeft,
        top: py + plot.over.offsetTop,
        middle,
        distance,
      };
    });
  });
  if (best) return best;
  if (idx === null || idx === undefined || series.every(({ draw }) => draw === 'points')) return undefined;
  return {
    index: from[idx] ?? 0,
    left: plot.valToPos(x[idx] ?? 0, 'x') + offsetLeft,
    top: plot.over.offsetTop,
    middle,
  };
}
