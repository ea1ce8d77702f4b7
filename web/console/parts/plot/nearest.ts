import type uPlot from 'uplot';
import type { Sorted } from './options.ts';

/** What the cursor is at. */
export interface Pointed {
  /** As the props have it. */
  readonly index: number;
  /** One point of it, where points are drawn: many may share a place on the x axis. */
  readonly series?: number;
  /** In CSS pixels of the plot's box, and where its middle is. */
  readonly left: number;
  readonly top: number;
  readonly middle: number;
}

/** In CSS pixels. */
const reach = 24;

/** Points are found by their distance, all else by its place on the x axis. */
export function nearest(plot: uPlot, { x, series, from }: Sorted): Pointed | undefined {
  const { left = -1, top = -1, idx } = plot.cursor;
  if (left < 0 || top < 0) return undefined;
  const shift = plot.over.offsetLeft;
  const middle = plot.width / 2;
  let best: (Pointed & { readonly distance: number }) | undefined;
  series.forEach(({ values, draw }, at) => {
    if (draw !== 'points') return;
    values.forEach((value, place) => {
      if (value === null) return;
      const [px, py] = [plot.valToPos(x[place] ?? 0, 'x'), plot.valToPos(value, 'y')];
      const distance = Math.hypot(px - left, py - top);
      if (distance > Math.min(reach, best?.distance ?? reach)) return;
      best = {
        index: from[place] ?? 0,
        series: at,
        left: px + shift,
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
    left: plot.valToPos(x[idx] ?? 0, 'x') + shift,
    top: plot.over.offsetTop,
    middle,
  };
}
