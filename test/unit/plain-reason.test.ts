import { openSync } from 'node:fs';
import { expect, it } from 'vitest';
import { fileErrorReason } from '../../src/lab/configs/store.ts';
import { safeErrorReason } from '../../src/words/plain-reason.ts';

const thrown = (work: () => unknown): unknown => {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
};
/** Node's own words on each name the path or the value. */
const nodes = ['/a/secret/place', '/dev/null/secret', 'secret\0'].map((path) =>
  thrown(() => openSync(path, 'r')),
);

it('of an error of Node is its code, without the path in its message', async () => {
  const place: string = '/a/secret/module.js';
  const missing: unknown = await import(place).catch((error: unknown) => error);
  for (const error of [...nodes, missing]) {
    expect((error as Error).message).toMatch(/secret/);
    expect(safeErrorReason(error)).toMatch(/^system error E[A-Z_]+$/);
    expect(fileErrorReason(error)).not.toMatch(/secret/);
  }
});

it('of any other error is its message', () => {
  expect(safeErrorReason(new Error('no device within 60 s'))).toBe('no device within 60 s');
  expect(safeErrorReason(Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR' }))).toBe(
    'disk I/O error',
  );
  expect(safeErrorReason('text')).toBe('text');
});
