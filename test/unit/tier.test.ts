import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { repository } from '../support/host.ts';
import { onlyRest } from '../support/only-rest.ts';

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

describe('a file in the rest', () => {
  const file = (body: string, imports = 'runsRest') =>
    `import { it } from 'vitest';\nimport { ${imports} } from '../support/tier.ts';\n${body}`;

  it('runs the tests alone that npm test leaves out', () => {
    expect(onlyRest(file("it('a');\nit.runIf(runsRest)('b');\ndescribe.runIf(runsRest)('c');"))).toBe(
      file("it('a');\nit.only('b');\ndescribe.only('c');"),
    );
  });

  it.each([
    ['uses the tier otherwise', file("it.runIf(runsRest)('a');\nconst turns = runsRest ? 9 : 1;")],
    ['takes samples', file("it.runIf(runsRest)('a');", 'everyNth, runsRest')],
    ['has more databases', file("describeDatabases('a');\nit.runIf(runsRest)('b');")],
    ['does not know the tier', "it('a');"],
  ])('runs whole where it %s', (_, source) => expect(onlyRest(source)).toBeUndefined());
});
