import { z } from 'zod';
import type { Column, ColumnType, Operator } from '../types.ts';
import type { Condition } from './shape.ts';

/** As the database compares it; a time may be one before now. */
export type Value = string | number | { readonly agoMs: number };

const ago = /^-(\d{1,6})([smhd])$/;
const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const instant = z.iso.datetime({ offset: true });

/** PostgreSQL keeps no NUL in a text, and no text holds half a surrogate pair: neither was stored. */
const storable = (text: string): string => text.replaceAll('\0', '\uFFFD').toWellFormed();

function time(value: unknown): Value | undefined {
  if (typeof value !== 'string') return undefined;
  const [, count, unit] = ago.exec(value) ?? [];
  if (unit !== undefined) return { agoMs: Number(count) * unitMs[unit as keyof typeof unitMs] };
  if (!instant.safeParse(value).success) return undefined;
  const date = new Date(value);
  const text = Number.isNaN(date.getTime()) ? '' : date.toISOString();
  return text.length === 24 ? text : undefined;
}

const readers: Readonly<
  Record<ColumnType, { readonly expected: string; readonly read: (value: unknown) => Value | undefined }>
> = {
  text: {
    expected: 'a text',
    read: (value) => (typeof value === 'string' ? storable(value) : undefined),
  },
  integer: {
    expected: 'a whole number',
    read: (value) => (Number.isSafeInteger(value) ? (value as number) : undefined),
  },
  number: {
    expected: 'a number',
    read: (value) => (typeof value === 'number' && Number.isFinite(value) ? value : undefined),
  },
  time: {
    expected: "a time as '2026-01-31T12:00:00Z', or back from now as '-15m', '-24h', '-7d'",
    read: time,
  },
  flag: {
    expected: 'true or false',
    read: (value) => (typeof value === 'boolean' ? Number(value) : undefined),
  },
  json: { expected: 'nothing', read: () => undefined },
};

const isList = (op: Operator) => op === 'in' || op === 'not_in';

/**
 * What a condition compares with.
 * @param fault hears of what does not fit; `at` is behind the path of the value
 */
export function valuesOf(
  { type }: Column,
  { op, value }: Pick<Condition, 'op' | 'value'>,
  fault: (at: string, message: string) => void,
): Value[] {
  const { expected, read } = readers[op === 'is_null' ? 'flag' : type];
  if (isList(op) !== Array.isArray(value)) {
    fault('', isList(op) ? `expected a list, each ${expected}` : `expected ${expected}, got a list`);
    return [];
  }
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  return given.flatMap((one, n) => {
    const understood = read(one);
    if (understood === undefined) fault(Array.isArray(value) ? `[${n}]` : '', `expected ${expected}`);
    return understood === undefined ? [] : [understood];
  });
}
