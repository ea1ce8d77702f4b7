import { lstat, readlink } from 'node:fs/promises';
import { dirname, join, parse, sep } from 'node:path';
import { systemErrorCode } from '../refusal.ts';

const maxLinks = 40; // as the kernel's own limit

/** A resolved absolute path. */
export interface Resolved {
  /** Longest existing part, without links. */
  readonly real: string;
  /** Following names, which do not exist. */
  readonly missing: readonly string[];
  /** Real paths of all folders in which a name was looked up. */
  readonly passedFolders: readonly string[];
}

/** Resolution failed: the error code, the real folder in which it occurred, and what was left of the path. */
export class UnresolvedPath extends Error {
  readonly reachedFolder: string;
  readonly code: string;
  readonly left: readonly string[];
  readonly passedFolders: readonly string[];
  constructor(
    code: string,
    reachedFolder: string,
    left: readonly string[] = [],
    passedFolders: readonly string[] = [],
  ) {
    super(`${code} in ${reachedFolder}`);
    this.name = 'UnresolvedPath';
    this.code = code;
    this.reachedFolder = reachedFolder;
    this.left = left;
    this.passedFolders = passedFolders;
  }
}

const splitNames = (path: string): string[] =>
  path.split(sep === '\\' ? /[\\/]/ : '/').filter((name) => name !== '' && name !== '.');

/**
 * Resolves links as the kernel does (`..` after a link is the parent of its target), and records the passed folders.
 * The result may be outdated when it is used; folder.ts handles that.
 * @param follow whether a link at the end of the path is followed
 */
export async function resolvePath(absolute: string, followLast = true): Promise<Resolved> {
  const { root } = parse(absolute);
  let real = root;
  let links = 0;
  const passedFolders: string[] = [];
  const remaining = splitNames(absolute.slice(root.length)).reverse();
  for (let name = remaining.pop(); name !== undefined; name = remaining.pop()) {
    if (name === '..') {
      real = dirname(real);
      continue;
    }
    passedFolders.push(real);
    const next = join(real, name);
    try {
      const isLink = (await lstat(next)).isSymbolicLink();
      if (!isLink || (!followLast && remaining.length === 0)) {
        real = next;
        continue;
      }
      if (++links > maxLinks) throw new UnresolvedPath('ELOOP', real);
      const target = await readlink(next);
      if (parse(target).root !== '') real = parse(target).root;
      remaining.push(...splitNames(target.slice(parse(target).root.length)).reverse());
    } catch (error) {
      const code = systemErrorCode(error);
      if (code === undefined || error instanceof UnresolvedPath) throw error;
      const missing = [name, ...remaining.reverse()];
      if (code !== 'ENOENT' || missing.includes('..'))
        throw new UnresolvedPath(code, real, missing, passedFolders);
      return { real, missing, passedFolders };
    }
  }
  return { real, missing: [], passedFolders };
}

export const isWithin = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
