import { Chart } from '../../../ui/chart.tsx';
import { Empty, Field } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import {
  axisColumns,
  chartOf,
  type ChartChoice,
  numericColumns,
  maxLines,
  defaultChart,
} from './chart-data.ts';
import css from './observe.module.css';
import type { Query, ResultColumn } from './types.ts';

const chartTypes = [
  ['line', 'lines'],
  ['points', 'points'],
  ['bars', 'bars'],
] as const;

/** Chart of a result. Axes and chart type are kept in the URL. */
export function ResultChart(props: {
  query: Query;
  columns: readonly ResultColumn[];
  rows: readonly (readonly unknown[])[];
}) {
  const { query, columns, rows } = props;
  const defaults = defaultChart(columns);
  const [x, setX] = useUrlState('x', defaults?.x);
  const [y, setY] = useUrlState('y', defaults?.y);
  const [draw, setDraw] = useUrlState('draw', defaults?.draw);
  if (!defaults)
    return (
      <Empty title="These rows have no numeric column to plot.">Add one to the columns of the query.</Empty>
    );
  // The choice in the URL may be for another query.
  const chart: ChartChoice = {
    x: x === 'rows' || axisColumns(columns).some(({ name }) => name === x) ? x : defaults.x,
    y: numericColumns(columns).some(({ name }) => name === y) ? y : defaults.y,
    draw: chartTypes.find(([name]) => name === draw)?.[0] ?? defaults.draw,
  };
  const chartData = chartOf(query, columns, rows, chart);
  return (
    <>
      <div className={css['filters']}>
        <Field label="Y axis">
          {(control) => (
            <select {...control} value={chart.y} onChange={({ target }) => setY(target.value)}>
              {numericColumns(columns).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="X axis">
          {(control) => (
            <select
              {...control}
              value={chart.x === '' ? 'rows' : chart.x}
              onChange={({ target }) => setX(target.value)}
            >
              <option value="rows">row number</option>
              {axisColumns(columns).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Chart type">
          {(control) => (
            <select {...control} value={chart.draw} onChange={({ target }) => setDraw(target.value)}>
              {chartTypes.map(([name, label]) => (
                <option key={name} value={name}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      {chartData && chartData.x.length > 0 ? (
        <Chart {...chartData} />
      ) : (
        <Empty title="None of these rows can be plotted.">Choose other columns or another scale.</Empty>
      )}
      {chartData && chartData.omitted > 0 && (
        <p>
          The {maxLines} largest groups are plotted; {chartData.omitted} more are in the table.
        </p>
      )}
    </>
  );
}
