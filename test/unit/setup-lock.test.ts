import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { missingPackages } from '../../scripts/complete-lock.mjs';

it('package-lock.json holds every platform package, or `npm ci` refuses it (mend: node scripts/complete-lock.mjs)', () => {
  const lock = JSON.parse(
    readFileSync(new URL('../../package-lock.json', import.meta.url), 'utf8'),
  ) as Parameters<typeof missingPackages>[0];
  expect([...missingPackages(lock).keys()]).toEqual([]);
});
