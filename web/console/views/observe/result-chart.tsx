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

/** The rows drawn; what is drawn of them is chosen here and stands in the URL. */
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
  if (!usual) return <Empty title="There are no figures in these rows to draw." />;
  // Chosen for another query, perhaps.
  const choice: ChartChoice = {
    x: x === 'rows' || axes(columns).some(({ name }) => name === x) ? x : usual.x,
    y: figures(columns).some(({ name }) => name === y) ? y : usual.y,
    draw: draws.find(([name]) => name === draw)?.[0] ?? usual.draw,
  };
  const drawn = chartOf(query, columns, rows, choice);
  return (
    <>
      <div className={css['filters']}>
        <Field label="Draw">
          {(control) => (
            <select {...control} value={choice.y} onChange={({ target }) => setY(target.value)}>
              {figures(columns).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Along">
          {(control) => (
            <select
              {...control}
              value={choice.x === '' ? 'rows' : choice.x}
              onChange={({ target }) => setX(target.value)}
            >
              <option value="rows">the rows, one by one</option>
              {axes(columns).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="As">
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
        <Empty title="None of these rows can be drawn." />
      )}
      {drawn && drawn.omitted > 0 && (
        <p>
          The {mostLines} largest groups are drawn; {drawn.omitted} more are in the table.
        </p>
      )}
    </>
  );
}
