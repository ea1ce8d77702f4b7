import { z } from 'zod';
import type { Column, ColumnType, Operator } from '../types.ts';
import type { Condition } from './shape.ts';

/** Value as the database compares it, or a time relative to now. */
export type Value = string | number | { readonly agoMs: number };

const relativeTime = /^-(\d{1,6})([smhd])$/;
const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const instant = z.iso.datetime({ offset: true });

/** Replaces NUL characters and lone surrogates, which stored texts cannot contain. */
const toStorableText = (text: string): string => text.replaceAll('\0', '\uFFFD').toWellFormed();

function time(value: unknown): Value | undefined {
  if (typeof value !== 'string') return undefined;
  const [, count, unit] = relativeTime.exec(value) ?? [];
  if (unit !== undefined) return { agoMs: Number(count) * unitMs[unit as keyof typeof unitMs] };
  if (!instant.safeParse(value).success) return undefined;
  const date = new Date(value);
  const text = Number.isNaN(date.getTime()) ? '' : date.toISOString();
  return text.length === 24 ? text : undefined;
}

const valueReaders: Readonly<
  Record<ColumnType, { readonly expected: string; readonly read: (value: unknown) => Value | undefined }>
> = {
  text: {
    expected: 'a string',
    read: (value) => (typeof value === 'string' ? toStorableText(value) : undefined),
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
    expected: "a time such as '2026-01-31T12:00:00Z', or a time before now such as '-15m', '-24h' or '-7d'",
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
 * Converts the values of a condition.
 * @param fault receives faults; `at` is appended to the path of the value
 */
export function parseValues(
  { type }: Column,
  { op, value }: Pick<Condition, 'op' | 'value'>,
  fault: (at: string, message: string) => void,
): Value[] {
  const { expected, read } = valueReaders[op === 'is_null' ? 'flag' : type];
  if (isList(op) !== Array.isArray(value)) {
    fault(
      '',
      isList(op) ? `expected a list; each element must be ${expected}` : `expected ${expected}, got a list`,
    );
    return [];
  }
  const rawValues: readonly unknown[] = Array.isArray(value) ? value : [value];
  return rawValues.flatMap((one, n) => {
    const parsed = read(one);
    if (parsed === undefined) fault(Array.isArray(value) ? `[${n}]` : '', `expected ${expected}`);
    return parsed === undefined ? [] : [parsed];
  });
}
