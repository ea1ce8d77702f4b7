import type { ShownResult } from '../observe/types.ts';

/** A value for people; `-` is none. */
export function cellOf(
  { type, unit }: Pick<ShownResult, 'type' | 'unit'>,
  value: unknown,
  asOf: string,
): string {
  if (value === null || value === undefined) return '-';
  // What is not of its type is shown as it is: an answer may be another version's.
  const shown = typeof value === 'string' ? value : JSON.stringify(value);
  switch (type) {
    case 'time':
      return shortTime(shown, asOf);
    case 'flag':
      return value === true ? 'yes' : 'no';
    case 'integer':
      // Codes and places are no amounts.
      return unit === undefined ? shown : grouped(shown);
    case 'number':
      return typeof value === 'number' ? figure(value) : shown;
    case 'json':
    case 'text':
      return shown;
  }
}

/** In UTC, as the answer has it: of today only the time, of this year no year. */
export function shortTime(time: string, asOf: string): string {
  const [, day, clock] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(time) ?? [];
  if (day === undefined || clock === undefined) return time;
  if (asOf.startsWith(day)) return clock;
  return asOf.startsWith(day.slice(0, 5)) ? `${day.slice(5)} ${clock}` : `${day} ${clock}`;
}

const grouped = (digits: string): string => digits.replaceAll(/(?<=\d)(?=(?:\d{3})+$)/g, ',');

/** Four digits, and all of them before the point. */
function figure(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(3);
  const digits = size === 0 ? 0 : Math.max(0, Math.min(7, 3 - Math.floor(Math.log10(size))));
  const [whole = '', rest] = value.toFixed(digits).split('.');
  const shown = rest?.replace(/0+$/, '');
  return shown ? `${grouped(whole)}.${shown}` : grouped(whole);
}

/** A column's name, and its unit where the name does not say it. */
export function headOf({ name, type, unit }: ShownResult): string {
  const shown = type === 'time' ? 'UTC' : unit;
  return shown === undefined || name.endsWith(`_${shown}`) || name === shown ? name : `${name} ${shown}`;
}
