import { lazy, Suspense } from 'react';
import { Loading } from './index.tsx';
import type { ChartProps, Series } from './plot/types.ts';

export type { ChartProps, Series };

const Plot = lazy(() => import('./plot.tsx'));

/** A chart. The plotting library is loaded on first use. */
export const Chart = (props: ChartProps) => (
  <Suspense fallback={<Loading what="the chart" />}>
    <Plot {...props} />
  </Suspense>
);
