import { useState } from 'react';
import type { ChartProps } from './types.ts';
import { Button, Table } from '../index.tsx';
import { formatPoint, formatX } from './series-style.ts';
import css from './plot.module.css';

/** Maximum number of rows shown; copying includes all rows. */
const maxRows = 400;

/** The values of a chart as a table. */
export function ValuesTable(props: ChartProps) {
  const { x, series, xLabel, yLabel, label, rowNames } = props;
  const [isOpen, setOpen] = useState(false);
  const [isCopied, setCopied] = useState(false);
  const rows = x.map((_, index) => index).slice(0, maxRows);
  const copyTable = async () => {
    await navigator.clipboard.writeText(toTabSeparated(props));
    setCopied(true);
  };
  return (
    <details className={css['values']} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Values as a table</summary>
      {isOpen && (
        <>
          <p className={css['copied']}>
            <Button onClick={() => void copyTable()}>Copy the table</Button>{' '}
            <span role="status">{isCopied ? 'Copied.' : ''}</span>
            {x.length > maxRows &&
              ` Showing the first ${maxRows} of ${x.length} rows; copying includes all rows.`}
          </p>
          <Table
            caption={`${label} ${yLabel}.`}
            rows={rows}
            keyOf={String}
            columns={[
              ...(rowNames
                ? [{ key: 'name', head: 'Name', cell: (index: number) => rowNames[index] ?? '' }]
                : []),
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
function toTabSeparated(props: ChartProps): string {
  const { x, series, xLabel, xNames, xKind, rowNames } = props;
  const head = [
    ...(rowNames ? ['Name'] : []),
    xLabel,
    ...series.flatMap(({ name, band }) => [name, ...(band ? [`${name} low`, `${name} high`] : [])]),
  ];
  const rows = x.map((place, index) => [
    ...(rowNames ? [rowNames[index] ?? ''] : []),
    xNames?.[place] ?? (xKind === 'time' ? new Date(place).toISOString() : place),
    ...series.flatMap(({ values, band }) => [
      values[index] ?? '',
      ...(band ? [band.low[index] ?? '', band.high[index] ?? ''] : []),
    ]),
  ]);
  return [head, ...rows].map((row) => row.join('\t')).join('\n');
}
