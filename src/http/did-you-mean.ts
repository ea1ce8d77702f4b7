import type { Route } from './route.ts';

type Mounted = Pick<Route, 'path' | 'isCatchAll'>;

/**
 * Client libraries append their own paths to a base address, which may have a prefix too many, too few, or a different
 * one.
 */
const prefixes = ['v1', 'api'];
/** Longer paths, and paths with more prefixes, are not treated as a mistaken base address. */
const limits = { path: 200, prefixes: 4 };

/**
 * Returns a function that suggests the mounted path for a path whose prefix is doubled, missing or wrong; it returns
 * undefined where no route fits.
 * @param absent paths that match only a route parameter and must not be suggested
 */
export function createPathSuggester(
  routes: readonly Mounted[],
  absent: readonly string[] = [],
): (path: string) => string | undefined {
  const patterns = routes.map(patternOf);
  return (path) => {
    if (path.length > limits.path) return undefined;
    const names = path.split('/').filter((name) => name !== '');
    const prefixesFound: string[] = [];
    while (prefixesFound.length < limits.prefixes && prefixes.includes(names[0] ?? '')) {
      prefixesFound.unshift(names.shift() ?? '');
    }
    if (names.length === 0) return undefined;
    // The innermost prefix was added by the client library, so it is tried first.
    const candidates = [...new Set([...prefixesFound, ...prefixes])].map((prefix) => [prefix, ...names]);
    return [...candidates, names]
      .map((all) => `/${all.join('/')}`)
      .find((one) => one !== path && !absent.includes(one) && patterns.some((pattern) => pattern.test(one)));
  };
}

/**
 * Converts a route path to a pattern. Every parameter is one segment; the last parameter of a catch-all route takes the
 * rest of the path.
 */
function patternOf({ path, isCatchAll: rest }: Mounted): RegExp {
  const parts = path.split(/\{\w+\}/).map((part) => part.replaceAll(/[.*+?^$()[\]{}|\\]/g, '\\$&'));
  const last = rest ? parts.pop() : undefined;
  return new RegExp(`^${parts.join('[^/]+')}${rest ? '.+' : ''}${last ?? ''}$`);
}
