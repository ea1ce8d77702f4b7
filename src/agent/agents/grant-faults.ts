import { isAbsolute, normalize, parse, sep } from 'node:path';
import type { Fault } from '../errors.ts';
import type { Grants, PartialGrants } from '../shapes/agent-spec.ts';
import { parseHostPattern } from './host-pattern.ts';
import { globPattern } from './name-glob.ts';

/** Bounded, because each entry is compared with each entry of the agent. */
const maxEntries = 200;

const entryRules: { readonly [Member in keyof Grants]-?: (entry: string) => string | undefined } = {
  tools: checkGlob,
  read: checkPath,
  write: checkPath,
  network: checkHost,
  auto_approve: checkGlob,
};
export const grantNames = Object.keys(entryRules) as (keyof Grants)[];

/**
 * Checks grants beyond their schema.
 * @param at path of the grants in the request, as a prefix for faults
 */
export function findGrantFaults(grants: PartialGrants, pathPrefix = 'grants'): Fault[] {
  return grantNames.flatMap((name) => {
    const entries = grants[name] ?? [];
    if (entries.length > maxEntries)
      return [
        { path: `${pathPrefix}.${name}`, message: `at most ${maxEntries} entries, got ${entries.length}` },
      ];
    return entries.flatMap((entry, index) => {
      const message = entryRules[name](entry);
      return message === undefined ? [] : [{ path: `${pathPrefix}.${name}.${index}`, message }];
    });
  });
}

function checkGlob(glob: string): string | undefined {
  if (globPattern.test(glob)) return undefined;
  return `expected the name of a tool, in which only '*' is special, got ${quote(glob)}`;
}

function checkPath(path: string): string | undefined {
  if (path.includes('\0')) return 'a path holds no NUL character';
  if (path === '~' || path.startsWith('~/'))
    return `expected an absolute path, got ${quote(path)}: '~' is not expanded, write your home folder out`;
  if (!isAbsolute(path)) return `expected an absolute path, got ${quote(path)}`;
  const normalized = normalizePath(path);
  return normalized === stripTrailingSlash(path)
    ? undefined
    : `expected a plain path: use ${quote(normalized)}`;
}

function checkHost(host: string): string | undefined {
  const pattern = parseHostPattern(host);
  return 'fault' in pattern ? `${pattern.fault}, got ${quote(host)}` : undefined;
}

/** Removes `.`, `..`, and doubled and trailing slashes. */
export const normalizePath = (path: string) => stripTrailingSlash(normalize(path));
const stripTrailingSlash = (path: string) =>
  path.endsWith(sep) && path !== parse(path).root ? path.slice(0, -sep.length) : path;

const quote = (text: string) => `'${text.slice(0, 80)}'`;
