/** What a test file becomes in tier `rest` (`vitest.config.ts`). */

/**
 * A file that uses the tier for `.runIf(runsRest)` alone runs those tests alone, because `npm test` runs its others.
 * @returns undefined where the file uses the tier in other ways: it runs whole
 */
export function onlyRest(source: string): string | undefined {
  const [imported] = /import \{[^}]*\} from '[^']*\/support\/tier\.ts';/.exec(source) ?? [];
  if (imported === undefined || !/\{\s*runsRest,?\s*\}/.test(imported)) return undefined;
  if (/\bdescribeDatabases\(/.test(source)) return undefined;
  const others = source.replace(imported, '').replaceAll('.runIf(runsRest)', '');
  return /\brunsRest\b/.test(others) ? undefined : source.replaceAll('.runIf(runsRest)', '.only');
}
