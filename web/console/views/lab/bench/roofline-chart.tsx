import { useMemo } from 'react';
import { Chart } from '../../../../ui/chart.tsx';
import { formatMs } from '../../../../ui/format.ts';
import type { BenchResult } from './runs.ts';
import { formatShare, kernelName } from '../graph/graph-model.ts';
import { ComponentTables } from './component-tables.tsx';
import { formatFigure } from './verdict-text.ts';
import { rooflineOf } from './roofline.ts';

/** The components of a decoded token relative to the measured peak rates of the adapter. */
export function RooflineChart({ result }: { result: BenchResult }) {
  const { peaks } = result;
  const { x, series, componentAt, omitted } = useMemo(() => rooflineOf(result), [result]);
  return (
    <>
      <p>
        Measured on this adapter: {formatFigure(peaks.gbps)} GB/s of memory,{' '}
        {peaks.cached_gbps > peaks.gbps * 1.02 && `${formatFigure(peaks.cached_gbps)} GB/s of cache, `}
        {formatFigure(peaks.gflops)} GFLOP/s of f32 multiply-adds. A point under the slope is limited by
        memory bandwidth, a point under the flat part by arithmetic. The distance to the line is the possible
        gain.
      </p>
      <Chart
        label="Roofline: operations per second of each component by operations per byte, with the measured peaks."
        x={x}
        rowNames={componentAt.map((one) => one?.id ?? 'roof')}
        series={series}
        xLabel="FLOP per byte"
        yLabel="GFLOP/s"
        xKind="log"
        yKind="log"
        height={340}
        describe={(seriesIndex, index) => {
          const one = componentAt[index];
          const intensity = x[index] ?? 0;
          if (!one || series[seriesIndex]?.draw !== 'points')
            return `${series[seriesIndex]?.name}: ${formatFigure(series[seriesIndex]?.values[index] ?? 0)} GFLOP/s at ${formatFigure(intensity)} FLOP per byte`;
          return [
            one.id,
            kernelName(one.kernel).name,
            `${formatFigure(one.gflops)} GFLOP/s, ${formatFigure(one.gbps)} GB/s, ${formatFigure(intensity)} FLOP per byte`,
            `${formatMs(one.gpu_ms)}, ${formatShare(one.peak_fraction)} of the roofline`,
          ].join('\n');
        }}
      />
      {omitted.length > 0 && (
        <p>
          Not plotted, because they do no arithmetic or are too short to measure:{' '}
          {omitted.map(({ id }) => id).join(', ')}.
        </p>
      )}
      <ComponentTables result={result} />
    </>
  );
}
