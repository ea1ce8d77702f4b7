import { expect } from 'vitest';
import { ObserveError } from '../../src/observe/errors.ts';

/** What a refusal says. */
export function caught(work: () => unknown): ObserveError {
  try {
    work();
  } catch (error) {
    if (error instanceof ObserveError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

/** The same rows; sums and means of floating numbers may end otherwise in their last digits. */
export function alike(actual: unknown, wanted: unknown, about: unknown): void {
  const close = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(close);
    return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(11)) : value;
  };
  expect(close(actual), JSON.stringify(about)).toEqual(close(wanted));
}
