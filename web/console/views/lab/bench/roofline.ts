/** Roofline data: operations per byte against operations per second. */
import type { Series } from '../../../../ui/plot/types.ts';
import type { BenchResult } from './runs.ts';
import { slotOf } from '../graph/graph-model.ts';

export type Component = BenchResult['components'][number];

export interface Roofline {
  /** FLOP per byte. */
  readonly x: readonly number[];
  readonly series: readonly Series[];
  /** The component at each index of x. */
  readonly componentAt: readonly (Component | undefined)[];
  /** Components that are not plotted: they do no arithmetic or are too short to measure. */
  readonly omitted: readonly Component[];
}

const roofPointCount = 48;

/** One series per slot, with the components of all layers, plus the rooflines of memory and cache. */
export function rooflineOf({ components, peaks }: Pick<BenchResult, 'components' | 'peaks'>): Roofline {
  const isPlottable = ({ gflops, gbps }: Component) => gflops > 0 && gbps > 0;
  const plotted = components.filter(isPlottable);
  const intensity = ({ gflops, gbps }: Component) => gflops / gbps;
  const ridge = peaks.gflops / peaks.gbps;
  const all = [...plotted.map(intensity), ridge];
  const [min, max] = [Math.min(...all) / 3, Math.max(...all) * 3];
  const grid = Array.from(
    { length: roofPointCount },
    (_, step) => min * (max / min) ** (step / (roofPointCount - 1)),
  );
  const x = [...grid, ridge, peaks.gflops / peaks.cached_gbps, ...plotted.map(intensity)];
  const before = x.length - plotted.length;
  const roof = (gbps: number) => x.map((one) => Math.min(peaks.gflops, one * gbps));
  const slots = Map.groupBy(plotted, ({ id }) => slotOf(id));
  const points = [...slots].map(
    ([slot, members], index): Series => ({
      name: slot.replace('layers.*.', ''),
      draw: 'points',
      color: index + 1,
      values: [
        ...x.slice(0, before).map(() => null),
        ...plotted.map((one) => (members.includes(one) ? one.gflops : null)),
      ],
    }),
  );
  const hasCache = peaks.cached_gbps > peaks.gbps * 1.02;
  return {
    x,
    // Points come first, because shapes and colors depend on the index.
    series: [
      ...points,
      { name: 'Roofline: memory and arithmetic', values: roof(peaks.gbps), color: 5 },
      ...(hasCache ? [{ name: 'Roofline: cache', values: roof(peaks.cached_gbps), color: 6 }] : []),
    ],
    componentAt: [...x.slice(0, before).map(() => undefined), ...plotted],
    omitted: components.filter((one) => !isPlottable(one)),
  };
}
