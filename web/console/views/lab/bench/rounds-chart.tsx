import { useMemo } from 'react';
import { Chart } from '../../../parts/chart.tsx';
import { useUrlState } from '../../../parts/url-state.ts';
import type { BenchRun } from './runs.ts';
import css from './bench.module.css';
import { cellsOf, ratiosOf } from './rounds.ts';

/** Each round as a point, live and afterwards. */
export function RoundsChart({ run: { rounds } }: { run: BenchRun }) {
  const cells = useMemo(() => cellsOf(rounds), [rounds]);
  const [name, setName] = useUrlState('of', 'decode');
  const cell = cells.find((one) => one.name === name) ?? cells[0];
  const chart = useMemo(() => {
    if (!cell) return undefined;
    const { bound, control, median } = ratiosOf(rounds, cell);
    return {
      x: rounds.map(({ round }) => round),
      series: [
        { name: 'Bound kernels vs. built-ins', values: bound, draw: 'points' as const, colour: 1 },
        {
          name: 'Built-ins vs. built-ins (control)',
          values: control,
          draw: 'points' as const,
          colour: 2,
        },
        { name: 'Median so far', values: median, colour: 1 },
        { name: 'No difference', values: rounds.map(() => 1), colour: 5 },
      ],
    };
  }, [rounds, cell]);
  if (!chart || !cell) return null;
  return (
    <div>
      <label className={css['of']}>
        Rounds of{' '}
        <select value={cell.name} onChange={({ target }) => setName(target.value)}>
          {cells.map((one) => (
            <option key={one.name} value={one.name}>
              {one.title}
            </option>
          ))}
        </select>
      </label>
      <Chart
        label={`${cell.title}: speed of the bound kernels relative to the built-ins, by round. Above 1, the bound kernels are faster.`}
        x={chart.x}
        series={chart.series}
        xLabel="Round"
        yLabel="Time ratio"
        height={240}
      />
    </div>
  );
}
