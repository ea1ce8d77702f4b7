import { lazy, Suspense } from 'react';
import { Loading } from './index.tsx';

export interface Series {
  readonly name: string;
  /** Where a line has none, it is broken. */
  readonly values: readonly (number | null)[];
  /** Of `--series-N` in tokens.css; by its place where absent. */
  readonly colour?: number;
  readonly draw?: 'line' | 'points' | 'bars';
  /** A band from `low` to `high` around the values. */
  readonly band?: { readonly low: readonly (number | null)[]; readonly high: readonly (number | null)[] };
}

export interface ChartProps {
  /** What it shows, in a sentence: who does not see it hears it, together with the table below. */
  readonly label: string;
  readonly x: readonly number[];
  readonly series: readonly Series[];
  readonly xLabel: string;
  readonly yLabel: string;
  readonly xKind?: 'number' | 'time' | 'log';
  readonly yKind?: 'number' | 'log';
  /** In pixels. */
  readonly height?: number;
  /** Of the point under the cursor. */
  readonly describe?: (series: number, index: number) => string;
}

const Plot = lazy(() => import('./plot.tsx'));

/** The plotter is fetched when it is needed. */
export const Chart = (props: ChartProps) => (
  <Suspense fallback={<Loading what="the chart" />}>
    <Plot {...props} />
  </Suspense>
);
