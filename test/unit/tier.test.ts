import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { repository } from '../support/host.ts';

/** What the helpers of `test/support/tier.ts` select in a tier; it is read when the module is loaded. */
const selectedIn = (tier: string) =>
  JSON.parse(
    execFileSync(process.execPath, ['test/fixtures/tier-selection.ts'], {
      cwd: repository,
      env: { ...process.env, LATHE_TEST_TIER: tier },
      encoding: 'utf8',
    }),
  ) as { cases: number[]; variants: Record<string, string[]> };

it('a case runs in npm test or in the rest, and all cases run in test:all', () => {
  const [sample, rest, all] = ['default', 'rest', 'all'].map(selectedIn) as [
    ReturnType<typeof selectedIn>,
    ReturnType<typeof selectedIn>,
    ReturnType<typeof selectedIn>,
  ];
  expect([...sample.cases, ...rest.cases].sort((a, b) => a - b)).toEqual(all.cases);
  for (const [kernel, variants] of Object.entries(all.variants)) {
    const [some = [], others = []] = [sample.variants[kernel], rest.variants[kernel]];
    expect([...some, ...others].sort(), kernel).toEqual([...variants].sort());
    expect(new Set([...some, ...others]).size, kernel).toBe(variants.length);
    expect(some.length, kernel).toBeGreaterThan(0);
  }
});
