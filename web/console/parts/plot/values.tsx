import { useState } from 'react';
import type { ChartProps } from './types.ts';
import { Button, Table } from '../index.tsx';
import { formatPoint, formatX } from './marks.ts';
import css from './plot.module.css';

/** Maximum number of rows shown; copying includes all rows. */
const most = 400;

/** The values of a chart as a table. */
export function Values(props: ChartProps) {
  const { x, series, xLabel, yLabel, label, names } = props;
  const [isOpen, setOpen] = useState(false);
  const [isCopied, setCopied] = useState(false);
  const rows = x.map((_, index) => index).slice(0, most);
  const copy = async () => {
    await navigator.clipboard.writeText(asText(props));
    setCopied(true);
  };
  return (
    <details className={css['values']} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Values as a table</summary>
      {isOpen && (
        <>
          <p className={css['copied']}>
            <Button onClick={() => void copy()}>Copy the table</Button>{' '}
            <span role="status">{isCopied ? 'Copied.' : ''}</span>
            {x.length > most && ` Showing the first ${most} of ${x.length} rows; copying includes all rows.`}
          </p>
          <Table
            caption={`${label} ${yLabel}.`}
            rows={rows}
            keyOf={String}
            columns={[
              ...(names ? [{ key: 'name', head: 'Name', cell: (index: number) => names[index] ?? '' }] : []),
              { key: 'x', head: xLabel, cell: (index) => formatX(props, x[index] ?? 0) },
              ...series.map((one, place) => ({
                key: `${place}`,
                head: one.name,
                number: true,
                cell: (index: number) => formatPoint(one, index),
              })),
            ]}
          />
        </>
      )}
    </details>
  );
}

/** The table as tab-separated text for spreadsheets, with full precision. */
function asText(props: ChartProps): string {
  const { x, series, xLabel, xNames, xKind, names } = props;
  const head = [
    ...(names ? ['Name'] : []),
    xLabel,
    ...series.flatMap(({ name, band }) => [name, ...(band ? [`${name} low`, `${name} high`] : [])]),
  ];
  const rows = x.map((place, index) => [
    ...(names ? [names[index] ?? ''] : []),
    xNames?.[place] ?? (xKind === 'time' ? new Date(place).toISOString() : place),
    ...series.flatMap(({ values, band }) => [
      values[index] ?? '',
      ...(band ? [band.low[index] ?? '', band.high[index] ?? ''] : []),
    ]),
  ]);
  return [head, ...rows].map((row) => row.join('\t')).join('\n');
}
