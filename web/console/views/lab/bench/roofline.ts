/** Components between their roofs: work a byte against operations a second. */
import type { Series } from '../../../parts/plot/types.ts';
import type { BenchResult } from './runs.ts';
import { slotOf } from '../graph/model.ts';

export type Component = BenchResult['components'][number];

export interface Roofline {
  /** FLOP a byte. */
  readonly x: readonly number[];
  readonly series: readonly Series[];
  /** At a place of x: the component there. */
  readonly at: readonly (Component | undefined)[];
  /** Without arithmetic, or too short for the clock. */
  readonly left: readonly Component[];
}

const pointsOfRoof = 48;

/** A series for each place of a layer, so that the layers' likes are together; both roofs with them. */
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
    // Points first: their shapes and colours go by their place.
    series: [
      ...points,
      { name: 'Roof: memory and arithmetic', values: roof(peaks.gbps), colour: 5 },
      ...(hasCache
        ? [{ name: 'Roof of what caches serve', values: roof(peaks.cached_gbps), colour: 6 }]
        : []),
    ],
    at: [...x.slice(0, before).map(() => undefined), ...drawn],
    left: components.filter((one) => !isDrawn(one)),
  };
}
