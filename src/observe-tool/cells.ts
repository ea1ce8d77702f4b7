import type { ResultColumn } from '../observe/types.ts';

/** Formats a value for people; `-` stands for null. */
export function formatCell(
  { type, unit }: Pick<ResultColumn, 'type' | 'unit'>,
  value: unknown,
  asOf: string,
): string {
  if (value === null || value === undefined) return '-';
  // A value of an unexpected type is printed unchanged: the response may come from another version.
  const shown = typeof value === 'string' ? value : JSON.stringify(value);
  switch (type) {
    case 'time':
      return formatTime(shown, asOf);
    case 'flag':
      return value === true ? 'yes' : 'no';
    case 'integer':
      // Integers without a unit are codes or positions, which have no thousands separators.
      return unit === undefined ? shown : groupDigits(shown);
    case 'number':
      return typeof value === 'number' ? formatNumber(value) : shown;
    case 'json':
    case 'text':
      return shown;
  }
}

/** Formats a time in UTC: without the date if it is of today, without the year if it is of this year. */
export function formatTime(time: string, asOf: string): string {
  const [, day, clock] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(time) ?? [];
  if (day === undefined || clock === undefined) return time;
  if (asOf.startsWith(day)) return clock;
  return asOf.startsWith(day.slice(0, 5)) ? `${day.slice(5)} ${clock}` : `${day} ${clock}`;
}

const groupDigits = (digits: string): string => digits.replaceAll(/(?<=\d)(?=(?:\d{3})+$)/g, ',');

/** Formats a number with four significant digits, and always all integer digits. */
function formatNumber(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(3);
  const digits = size === 0 ? 0 : Math.max(0, Math.min(7, 3 - Math.floor(Math.log10(size))));
  const [whole = '', rest] = value.toFixed(digits).split('.');
  const shown = rest?.replace(/0+$/, '');
  return shown ? `${groupDigits(whole)}.${shown}` : groupDigits(whole);
}

/** Column name, with the unit unless the name contains it. */
export function columnTitle({ name, type, unit }: ResultColumn): string {
  const shown = type === 'time' ? 'UTC' : unit;
  return shown === undefined || name.endsWith(`_${shown}`) || name === shown ? name : `${name} ${shown}`;
}
