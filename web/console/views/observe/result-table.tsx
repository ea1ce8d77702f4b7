import { useState } from 'react';
import { Button, Table } from '../../../ui/index.tsx';
import { Cell } from './cell.tsx';
import css from './observe.module.css';
import type { ResultColumn } from './types.ts';

/** Table of a result, with unit and provenance in the header. Columns without any value are hidden at first. */
export function ResultTable(props: {
  surface: string;
  columns: readonly ResultColumn[];
  rows: readonly (readonly unknown[])[];
}) {
  const { surface, columns, rows } = props;
  const [showsEmpty, setShowsEmpty] = useState(false);
  const isEmpty = (index: number) => rows.every((row) => row[index] === null || row[index] === undefined);
  const shown = columns.map((column, index) => ({ column, index }));
  const empty = shown.filter(({ index }) => isEmpty(index));
  const chosen = showsEmpty ? shown : shown.filter((one) => !empty.includes(one));
  return (
    <>
      <Table
        caption={`Rows of ${surface}`}
        rows={rows}
        keyOf={(_, index) => String(index)}
        filter={{ what: 'rows', textOf: (row) => row.join(' ') }}
        columns={chosen.map(({ column, index }) => ({
          key: column.name,
          number: column.type === 'integer' || column.type === 'number',
          head: (
            <>
              {column.name}
              <small className={css['origin']} data-provenance={column.provenance}>
                {[column.unit, column.provenance].filter(Boolean).join(', ')}
              </small>
            </>
          ),
          cell: (row: readonly unknown[]) => <Cell column={column} value={row[index]} />,
        }))}
      />
      {empty.length > 0 && (
        <p className={css['muted']}>
          {showsEmpty
            ? 'Columns without a value in any row are shown. '
            : `Without a value in any row: ${empty.map(({ column }) => column.name).join(', ')}. `}
          <Button onClick={() => setShowsEmpty(!showsEmpty)}>{showsEmpty ? 'Hide them' : 'Show them'}</Button>
        </p>
      )}
    </>
  );
}
