import { useMemo } from 'react';
import { Chart } from '../../../../ui/chart.tsx';
import type { BenchResult } from './runs.ts';

interface RatioWithInterval {
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
    const whiskers = (all: readonly RatioWithInterval[]) => ({
      values: all.map(({ ratio }) => ratio),
      band: { low: all.map(({ ci95 }) => ci95.low), high: all.map(({ ci95 }) => ci95.high) },
      draw: 'points' as const,
    });
    // Side by side: at the same x position their intervals would overlap.
    const pairs = cells.flatMap((one): (RatioWithInterval | undefined)[] => [one, one.control]);
    const pickEvery = (parity: 0 | 1) => {
      const { values, band, draw } = whiskers(
        pairs.map((one) => one ?? { ratio: 1, ci95: { low: 1, high: 1 } }),
      );
      const pick = (all: readonly number[]) => all.map((value, at) => (at % 2 === parity ? value : null));
      return { values: pick(values), band: { low: pick(band.low), high: pick(band.high) }, draw };
    };
    return {
      names: cells.flatMap(({ name }) => [name, 'control']),
      series: [
        { name: 'Bound kernels vs. built-ins', ...pickEvery(0), color: 1 },
        { name: 'Built-ins vs. built-ins (control)', ...pickEvery(1), color: 2 },
        { name: 'No difference', values: pairs.map(() => 1), color: 5 },
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
