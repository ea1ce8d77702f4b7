import { Chart } from '../../parts/chart.tsx';
import { Empty, Field } from '../../parts/index.tsx';
import { useUrlState } from '../../parts/url-state.ts';
import { axes, chartOf, type ChartChoice, figures, mostLines, usualChoice } from './chart-data.ts';
import css from './observe.module.css';
import type { Query, ResultColumn } from './types.ts';

const draws = [
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
  const usual = usualChoice(columns);
  const [x, setX] = useUrlState('x', usual?.x);
  const [y, setY] = useUrlState('y', usual?.y);
  const [draw, setDraw] = useUrlState('draw', usual?.draw);
  if (!usual) return <Empty title="These rows have no numeric column to plot." />;
  // The choice in the URL may be for another query.
  const choice: ChartChoice = {
    x: x === 'rows' || axes(columns).some(({ name }) => name === x) ? x : usual.x,
    y: figures(columns).some(({ name }) => name === y) ? y : usual.y,
    draw: draws.find(([name]) => name === draw)?.[0] ?? usual.draw,
  };
  const drawn = chartOf(query, columns, rows, choice);
  return (
    <>
      <div className={css['filters']}>
        <Field label="Y axis">
          {(control) => (
            <select {...control} value={choice.y} onChange={({ target }) => setY(target.value)}>
              {figures(columns).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="X axis">
          {(control) => (
            <select
              {...control}
              value={choice.x === '' ? 'rows' : choice.x}
              onChange={({ target }) => setX(target.value)}
            >
              <option value="rows">row number</option>
              {axes(columns).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Chart type">
          {(control) => (
            <select {...control} value={choice.draw} onChange={({ target }) => setDraw(target.value)}>
              {draws.map(([name, said]) => (
                <option key={name} value={name}>
                  {said}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      {drawn && drawn.x.length > 0 ? (
        <Chart {...drawn} />
      ) : (
        <Empty title="None of these rows can be plotted." />
      )}
      {drawn && drawn.omitted > 0 && (
        <p>
          The {mostLines} largest groups are plotted; {drawn.omitted} more are in the table.
        </p>
      )}
    </>
  );
}
