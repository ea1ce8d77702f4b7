/** Roofline data: operations per byte against operations per second. */
import type { Series } from '../../../parts/plot/types.ts';
import type { BenchResult } from './runs.ts';
import { slotOf } from '../graph/model.ts';

export type Component = BenchResult['components'][number];

export interface Roofline {
  /** FLOP per byte. */
  readonly x: readonly number[];
  readonly series: readonly Series[];
  /** The component at each index of x. */
  readonly at: readonly (Component | undefined)[];
  /** Components that are not plotted: they do no arithmetic or are too short to measure. */
  readonly left: readonly Component[];
}

const pointsOfRoof = 48;

/** One series per slot, with the components of all layers, plus the rooflines of memory and cache. */
export function rooflineOf({ components, peaks }: Pick<BenchResult, 'components' | 'peaks'>): Roofline {
  const isDrawn = ({ gflops, gbps }: Component) => gflops > 0 && gbps > 0;
  const drawn = components.filter(isDrawn);
  const intensity = ({ gflops, gbps }: Component) => gflops / gbps;
  const ridge = peaks.gflops / peaks.gbps;
  const all = [...drawn.map(intensity), ridge];
  const [least, most] = [Math.min(...all) / 3, Math.max(...all) * 3];
  const grid = Array.from(
    { length: pointsOfRoof },
    (_, step) => least * (most / least) ** (step / (pointsOfRoof - 1)),
  );
  const x = [...grid, ridge, peaks.gflops / peaks.cached_gbps, ...drawn.map(intensity)];
  const before = x.length - drawn.length;
  const roof = (gbps: number) => x.map((one) => Math.min(peaks.gflops, one * gbps));
  const slots = Map.groupBy(drawn, ({ id }) => slotOf(id));
  const points = [...slots].map(
    ([slot, its], index): Series => ({
      name: slot.replace('layers.*.', ''),
      draw: 'points',
      colour: index + 1,
      values: [
        ...x.slice(0, before).map(() => null),
        ...drawn.map((one) => (its.includes(one) ? one.gflops : null)),
      ],
    }),
  );
  const hasCache = peaks.cached_gbps > peaks.gbps * 1.02;
  return {
    x,
    // Points come first, because shapes and colors depend on the index.
    series: [
      ...points,
      { name: 'Roofline: memory and arithmetic', values: roof(peaks.gbps), colour: 5 },
      ...(hasCache ? [{ name: 'Roofline: cache', values: roof(peaks.cached_gbps), colour: 6 }] : []),
    ],
    at: [...x.slice(0, before).map(() => undefined), ...drawn],
    left: components.filter((one) => !isDrawn(one)),
  };
}
