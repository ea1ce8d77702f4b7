import type { Route } from './route.ts';

type Mounted = Pick<Route, 'path' | 'rest'>;

/** Client libraries put their own paths behind a base address, which may have a prefix too many, too few or another one. */
const prefixes = ['v1', 'api'];
/** Longer paths, and more prefixes than this, are no mistaken base address. */
const longest = { path: 200, prefixes: 4 };

/**
 * @param absent paths that only the parameter of a route takes
 * @returns the mounted path that a path means whose prefix is doubled, missing or another one's; else undefined
 */
export function meantPath(
  routes: readonly Mounted[],
  absent: readonly string[] = [],
): (path: string) => string | undefined {
  const forms = routes.map(formOf);
  return (path) => {
    if (path.length > longest.path) return undefined;
    const names = path.split('/').filter((name) => name !== '');
    const given: string[] = [];
    while (given.length < longest.prefixes && prefixes.includes(names[0] ?? '')) {
      given.unshift(names.shift() ?? '');
    }
    if (names.length === 0) return undefined;
    // The innermost prefix is the client's own: it knows best.
    const tried = [...new Set([...given, ...prefixes])].map((prefix) => [prefix, ...names]);
    return [...tried, names]
      .map((all) => `/${all.join('/')}`)
      .find((one) => one !== path && !absent.includes(one) && forms.some((form) => form.test(one)));
  };
}

/** Every parameter is one segment; the last one of a `rest` route is all that is left. */
function formOf({ path, rest }: Mounted): RegExp {
  const parts = path.split(/\{\w+\}/).map((part) => part.replaceAll(/[.*+?^$()[\]{}|\\]/g, '\\$&'));
  const last = rest ? parts.pop() : undefined;
  return new RegExp(`^${parts.join('[^/]+')}${rest ? '.+' : ''}${last ?? ''}$`);
}
