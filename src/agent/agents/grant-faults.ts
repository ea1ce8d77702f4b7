import { isAbsolute, normalize, parse, sep } from 'node:path';
import type { Fault } from '../errors.ts';
import type { Grants, SomeGrants } from '../shapes/agent-spec.ts';
import { hostPattern } from './host-pattern.ts';
import { globForm } from './name-glob.ts';

/** Bounded, because each entry is compared with each entry of the agent. */
const mostEntries = 200;

const rules: { readonly [Member in keyof Grants]-?: (entry: string) => string | undefined } = {
  tools: globFault,
  read: pathFault,
  write: pathFault,
  network: hostFault,
  auto_approve: globFault,
};
export const grantNames = Object.keys(rules) as (keyof Grants)[];

/**
 * Checks grants beyond their schema.
 * @param at path of the grants in the request, as a prefix for faults
 */
export function grantFaults(grants: SomeGrants, at = 'grants'): Fault[] {
  return grantNames.flatMap((name) => {
    const entries = grants[name] ?? [];
    if (entries.length > mostEntries)
      return [{ path: `${at}.${name}`, message: `at most ${mostEntries} entries, got ${entries.length}` }];
    return entries.flatMap((entry, index) => {
      const message = rules[name](entry);
      return message === undefined ? [] : [{ path: `${at}.${name}.${index}`, message }];
    });
  });
}

function globFault(glob: string): string | undefined {
  if (globForm.test(glob)) return undefined;
  return `expected the name of a tool, in which only '*' is special, got ${shown(glob)}`;
}

function pathFault(path: string): string | undefined {
  if (path.includes('\0')) return 'a path holds no NUL character';
  if (path === '~' || path.startsWith('~/'))
    return `expected an absolute path, got ${shown(path)}: '~' is not expanded, write your home folder out`;
  if (!isAbsolute(path)) return `expected an absolute path, got ${shown(path)}`;
  const plain = plainPath(path);
  return plain === withoutEnd(path) ? undefined : `expected a plain path: use ${shown(plain)}`;
}

function hostFault(host: string): string | undefined {
  const pattern = hostPattern(host);
  return 'fault' in pattern ? `${pattern.fault}, got ${shown(host)}` : undefined;
}

/** Removes `.`, `..`, and doubled and trailing slashes. */
export const plainPath = (path: string) => withoutEnd(normalize(path));
const withoutEnd = (path: string) =>
  path.endsWith(sep) && path !== parse(path).root ? path.slice(0, -sep.length) : path;

const shown = (text: string) => `'${text.slice(0, 80)}'`;
