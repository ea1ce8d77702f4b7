import { formatNanodollars, formatNumber, formatTime } from '../../../ui/format.ts';
import css from './observe.module.css';
import type { ResultColumn } from './types.ts';

const maxTextLength = 240;

/** A value, formatted by the type and unit of its column. */
export function Cell({ column, value }: { column: ResultColumn; value: unknown }) {
  if (value === null || value === undefined)
    return (
      <span className={css['none']} aria-label="no value">
        -
      </span>
    );
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (column.type === 'time' && typeof value === 'string')
    return (
      <time dateTime={value} title={value} className={css['time']}>
        {formatTime(value)}
      </time>
    );
  // Integers beyond 2^53 are strings.
  if (column.unit === 'nanousd' && (typeof value === 'number' || typeof value === 'string'))
    return /^-?\d+$/.test(`${value}`) ? formatNanodollars(value) : `${value}`;
  if (typeof value === 'number') return formatNumber(value, 3);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (text.length <= maxTextLength) return <span className={css['value']}>{text}</span>;
  return (
    <details className={css['value']}>
      <summary>{text.slice(0, 120)} ...</summary>
      {text}
    </details>
  );
}
