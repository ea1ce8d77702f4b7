import { useMemo } from 'react';
import { Chart } from '../../../parts/chart.tsx';
import type { BenchResult } from './runs.ts';

interface Compared {
  readonly ratio: number;
  readonly ci95: { readonly low: number; readonly high: number };
}

/** Time ratios with their confidence intervals, each next to its control. */
export function IntervalsChart({ result }: { result: BenchResult }) {
  const { names, series } = useMemo(() => {
    const cells = [
      { name: 'Prompt', ...result.prefill },
      ...result.decode.map((one) => ({ name: `Decode at ${one.context}`, ...one })),
    ];
    const whiskers = (all: readonly Compared[]) => ({
      values: all.map(({ ratio }) => ratio),
      band: { low: all.map(({ ci95 }) => ci95.low), high: all.map(({ ci95 }) => ci95.high) },
      draw: 'points' as const,
    });
    // Side by side: at the same x position their intervals would overlap.
    const pairs = cells.flatMap((one): (Compared | undefined)[] => [one, one.control]);
    const only = (which: 0 | 1) => {
      const { values, band, draw } = whiskers(
        pairs.map((one) => one ?? { ratio: 1, ci95: { low: 1, high: 1 } }),
      );
      const keep = (all: readonly number[]) => all.map((value, at) => (at % 2 === which ? value : null));
      return { values: keep(values), band: { low: keep(band.low), high: keep(band.high) }, draw };
    };
    return {
      names: cells.flatMap(({ name }) => [name, 'control']),
      series: [
        { name: 'Bound kernels vs. built-ins', ...only(0), colour: 1 },
        { name: 'Built-ins vs. built-ins (control)', ...only(1), colour: 2 },
        { name: 'No difference', values: pairs.map(() => 1), colour: 5 },
      ],
    };
  }, [result]);
  return (
    <Chart
      label="Time ratios with 95 % intervals, built-in over bound. Above 1, the bound kernels are faster."
      x={names.map((_, index) => index)}
      xNames={names}
      series={series}
      xLabel=""
      yLabel="Time ratio"
      height={260}
    />
  );
}
