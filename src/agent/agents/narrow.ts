import { sep } from 'node:path';
import type { Fault } from '../errors.ts';
import type { Grants, SomeGrants } from '../shapes/agent-spec.ts';
import { grantFaults, grantNames, plainPath } from './grant-faults.ts';
import { hostCovers, hostPattern } from './host-pattern.ts';
import { globCovers } from './name-glob.ts';
import { realPath } from './real-path.ts';

export type Narrowed =
  | { readonly grants: Grants; readonly faults?: undefined }
  | { readonly grants?: undefined; readonly faults: readonly Fault[] };

interface NarrowOptions {
  /** Path of the grants in the request; default `grants`. */
  readonly at?: string;
  /** Resolves symbolic links; undefined when that is not possible. Default: on this machine's disk. */
  readonly realPath?: (path: string) => string | undefined;
}

/**
 * Narrows an agent's grants to those of a request. An absent member keeps the agent's entries; an empty list removes
 * them. Each requested entry must be covered by an entry of the agent; entries that are not, and malformed ones, are
 * faults.
 */
export function narrow(
  agent: Grants,
  asked: SomeGrants,
  { at = 'grants', realPath: resolvePath = realPath }: NarrowOptions = {},
): Narrowed {
  const resolve = remembered(resolvePath);
  const malformed = grantFaults(asked, at);
  const isMalformed = new Set(malformed.map(({ path }) => path));
  const within = (wide: readonly string[], path: string) =>
    wide.some((one) => pathCovers(one, path, resolve));
  const allows: { readonly [Member in keyof Grants]-?: (entry: string) => boolean } = {
    tools: (glob) => agent.tools.some((wide) => globCovers(wide, glob)),
    // Write access includes read access.
    read: (path) => within([...agent.read, ...agent.write], path),
    write: (path) => within(agent.write, path),
    network: (host) => agent.network.some((wide) => namesCover(wide, host)),
    auto_approve: (glob) => agent.auto_approve.some((wide) => globCovers(wide, glob)),
  };
  const widening = grantNames.flatMap((name) => {
    if (isMalformed.has(`${at}.${name}`)) return [];
    return (asked[name] ?? []).flatMap((entry, index) => {
      const path = `${at}.${name}.${index}`;
      if (isMalformed.has(path) || allows[name](entry)) return [];
      return [{ path, message: wideningMessage(name, entry, agent[name]) }];
    });
  });
  const faults = [...malformed, ...widening];
  if (faults.length > 0) return { faults };
  return {
    grants: {
      tools: [...(asked.tools ?? agent.tools)],
      read: [...(asked.read?.map(plainPath) ?? agent.read)],
      write: [...(asked.write?.map(plainPath) ?? agent.write)],
      network: [...(asked.network ?? agent.network)],
      auto_approve: [...(asked.auto_approve ?? agent.auto_approve)],
    },
  };
}

function wideningMessage(name: keyof Grants, entry: string, own: readonly string[]): string {
  const some = own.slice(0, 10).map((one) => `'${one.slice(0, 80)}'`);
  const more = own.length > some.length ? ' and more' : '';
  const has = some.length === 0 ? 'nothing' : `${some.join(', ')}${more}`;
  return `'${entry.slice(0, 80)}' is more than the agent is granted (${name}: ${has}); a request may only narrow it`;
}

/** Compares the paths as written and with links resolved, so that a link never widens a grant. */
function pathCovers(wide: string, path: string, resolve: (path: string) => string | undefined): boolean {
  if (!isBelow(plainPath(wide), plainPath(path))) return false;
  const [realWide, real] = [resolve(wide), resolve(path)];
  return realWide !== undefined && real !== undefined && isBelow(realWide, real);
}

const isBelow = (folder: string, path: string) =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

function remembered<Result>(ask: (path: string) => Result): (path: string) => Result {
  const known = new Map<string, Result>();
  return (path) => {
    if (!known.has(path)) known.set(path, ask(path));
    return known.get(path) as Result;
  };
}

function namesCover(wide: string, host: string): boolean {
  const [a, b] = [hostPattern(wide), hostPattern(host)];
  return !('fault' in a) && !('fault' in b) && hostCovers(a, b);
}
