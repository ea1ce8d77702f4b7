import { sep } from 'node:path';
import type { Fault } from '../errors.ts';
import type { Grants, PartialGrants } from '../shapes/agent-spec.ts';
import { findGrantFaults, grantNames, normalizePath } from './grant-faults.ts';
import { hostCovers, parseHostPattern } from './host-pattern.ts';
import { globCovers } from './name-glob.ts';
import { resolveRealPath } from './real-path.ts';

export type NarrowedGrants =
  | { readonly grants: Grants; readonly faults?: undefined }
  | { readonly grants?: undefined; readonly faults: readonly Fault[] };

interface NarrowOptions {
  /** Path of the grants in the request; default `grants`. */
  readonly pathPrefix?: string;
  /** Resolves symbolic links; undefined when that is not possible. Default: on this machine's disk. */
  readonly realPath?: (path: string) => string | undefined;
}

/**
 * Narrows an agent's grants to those of a request. An absent member keeps the agent's entries; an empty list removes
 * them. Each requested entry must be covered by an entry of the agent; entries that are not, and malformed ones, are
 * faults.
 */
export function narrowGrants(
  agent: Grants,
  requested: PartialGrants,
  { pathPrefix = 'grants', realPath: resolvePath = resolveRealPath }: NarrowOptions = {},
): NarrowedGrants {
  const resolve = memoize(resolvePath);
  const malformed = findGrantFaults(requested, pathPrefix);
  const isMalformed = new Set(malformed.map(({ path }) => path));
  const isCovered = (wide: readonly string[], path: string) =>
    wide.some((one) => pathCovers(one, path, resolve));
  const isAllowed: { readonly [Member in keyof Grants]-?: (entry: string) => boolean } = {
    tools: (glob) => agent.tools.some((wide) => globCovers(wide, glob)),
    // Write access includes read access.
    read: (path) => isCovered([...agent.read, ...agent.write], path),
    write: (path) => isCovered(agent.write, path),
    network: (host) => agent.network.some((wide) => hostNameCovers(wide, host)),
    auto_approve: (glob) => agent.auto_approve.some((wide) => globCovers(wide, glob)),
  };
  const widening = grantNames.flatMap((name) => {
    if (isMalformed.has(`${pathPrefix}.${name}`)) return [];
    return (requested[name] ?? []).flatMap((entry, index) => {
      const path = `${pathPrefix}.${name}.${index}`;
      if (isMalformed.has(path) || isAllowed[name](entry)) return [];
      return [{ path, message: wideningMessage(name, entry, agent[name]) }];
    });
  });
  const faults = [...malformed, ...widening];
  if (faults.length > 0) return { faults };
  return {
    grants: {
      tools: [...(requested.tools ?? agent.tools)],
      read: [...(requested.read?.map(normalizePath) ?? agent.read)],
      write: [...(requested.write?.map(normalizePath) ?? agent.write)],
      network: [...(requested.network ?? agent.network)],
      auto_approve: [...(requested.auto_approve ?? agent.auto_approve)],
    },
  };
}

function wideningMessage(name: keyof Grants, entry: string, granted: readonly string[]): string {
  const listed = granted.slice(0, 10).map((one) => `'${one.slice(0, 80)}'`);
  const more = granted.length > listed.length ? ' and more' : '';
  const has = listed.length === 0 ? 'nothing' : `${listed.join(', ')}${more}`;
  return `'${entry.slice(0, 80)}' is more than the agent is granted (${name}: ${has}); a request may only narrow it`;
}

/** Compares the paths as written and with links resolved, so that a link never widens a grant. */
function pathCovers(wide: string, path: string, resolve: (path: string) => string | undefined): boolean {
  if (!isBelow(normalizePath(wide), normalizePath(path))) return false;
  const [realWide, real] = [resolve(wide), resolve(path)];
  return realWide !== undefined && real !== undefined && isBelow(realWide, real);
}

const isBelow = (folder: string, path: string) =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

function memoize<Result>(compute: (path: string) => Result): (path: string) => Result {
  const cache = new Map<string, Result>();
  return (path) => {
    if (!cache.has(path)) cache.set(path, compute(path));
    return cache.get(path) as Result;
  };
}

function hostNameCovers(wide: string, host: string): boolean {
  const [a, b] = [parseHostPattern(wide), parseHostPattern(host)];
  return !('fault' in a) && !('fault' in b) && hostCovers(a, b);
}
