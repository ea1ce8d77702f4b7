import type { ReactNode } from 'react';
import { Chart, type Series } from '../../../../ui/chart.tsx';
import { Panel } from '../../../../ui/index.tsx';
import type { OverTime, Percentiles } from './figures.ts';
import css from './overview.module.css';

const heightPx = 180;

/** Requests, tokens and times over the time range. */
export function Charts({ overTime, children }: { overTime: OverTime; children: ReactNode }) {
  const { requests, errors, cancelled, promptTokens, completionTokens, firstToken, total, queue } = overTime;
  const charts: readonly { title: string; unit: string; series: readonly Series[] }[] = [
    {
      title: 'Requests and errors',
      unit: 'requests',
      series: [
        { name: 'all', values: requests, draw: 'bars', color: 1 },
        { name: 'errors', values: errors, color: 4 },
        { name: 'cancelled', values: cancelled, color: 2 },
      ],
    },
    {
      title: 'Tokens',
      unit: 'tokens',
      series: [
        { name: 'in', values: promptTokens },
        { name: 'out', values: completionTokens },
      ],
    },
    { title: 'Time to first token', unit: 'ms', series: percentileLines(firstToken) },
    { title: 'Latency', unit: 'ms', series: percentileLines(total) },
    { title: 'Time in the queue', unit: 'ms', series: percentileLines(queue) },
  ];
  return (
    <div className={css['charts']}>
      {charts.map(({ title, unit, series }) => (
        <Panel key={title} title={title}>
          <Chart
            label={`${title} over time, in ${unit}.`}
            x={overTime.starts}
            xKind="time"
            xLabel="Time"
            yLabel={unit}
            startsAtZero
            height={heightPx}
            series={series}
          />
        </Panel>
      ))}
      {children}
    </div>
  );
}

const percentileLines = (lines: Readonly<Record<keyof Percentiles, Series['values']>>): Series[] =>
  (['p50', 'p95', 'p99'] as const).map((name) => ({
    name,
    values: lines[name],
    // A lone point between empty buckets has no line.
    draw: lines[name].filter((value) => value !== null).length < 20 ? 'points' : 'line',
  }));
