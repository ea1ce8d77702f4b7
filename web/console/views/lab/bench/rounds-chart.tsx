import { useMemo } from 'react';
import { Chart } from '../../../../ui/chart.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import type { BenchRound } from './runs.ts';
import css from './bench.module.css';
import { roundSelections, ratiosOf } from './rounds.ts';

/** Each round as a point, live and afterwards. */
export function RoundsChart({ rounds }: { rounds: readonly BenchRound[] }) {
  const selections = useMemo(() => roundSelections(rounds), [rounds]);
  const [name, setName] = useUrlState('of', 'decode');
  const selection = selections.find((one) => one.name === name) ?? selections[0];
  const chart = useMemo(() => {
    if (!selection) return undefined;
    const { bound, control, median } = ratiosOf(rounds, selection);
    return {
      x: rounds.map(({ round }) => round),
      series: [
        { name: 'Bound kernels vs. built-ins', values: bound, draw: 'points' as const, color: 1 },
        {
          name: 'Built-ins vs. built-ins (control)',
          values: control,
          draw: 'points' as const,
          color: 2,
        },
        { name: 'Median so far', values: median, color: 1 },
        { name: 'No difference', values: rounds.map(() => 1), color: 5 },
      ],
    };
  }, [rounds, selection]);
  if (!chart || !selection) return null;
  return (
    <div>
      <label className={css['of']}>
        Rounds of{' '}
        <select value={selection.name} onChange={({ target }) => setName(target.value)}>
          {selections.map((one) => (
            <option key={one.name} value={one.name}>
              {one.title}
            </option>
          ))}
        </select>
      </label>
      <Chart
        label={`${selection.title}: speed of the bound kernels relative to the built-ins, by round. Above 1, the bound kernels are faster.`}
        x={chart.x}
        series={chart.series}
        xLabel="Round"
        yLabel="Time ratio"
        height={240}
      />
    </div>
  );
}
