import { lstat, readlink } from 'node:fs/promises';
import { dirname, join, parse, sep } from 'node:path';
import { codeOf } from '../refusal.ts';

const mostLinks = 40; // as the kernel's own limit

/** A resolved absolute path. */
export interface Resolved {
  /** Longest existing part, without links. */
  readonly real: string;
  /** Following names, which do not exist. */
  readonly missing: readonly string[];
  /** Real paths of all folders in which a name was looked up. */
  readonly passed: readonly string[];
}

/** Resolution failed: the error code, and the real folder in which it occurred. */
export class Unresolved extends Error {
  readonly reached: string;
  readonly code: string;
  constructor(code: string, reached: string) {
    super(`${code} in ${reached}`);
    this.name = 'Unresolved';
    this.code = code;
    this.reached = reached;
  }
}

const names = (path: string): string[] =>
  path.split(sep === '\\' ? /[\\/]/ : '/').filter((name) => name !== '' && name !== '.');

/**
 * Resolves links as the kernel does (`..` after a link is the parent of its target), and records the passed folders.
 * The result may be outdated when it is used; folder.ts handles that.
 * @param follow whether a link at the end of the path is followed
 */
export async function resolvePath(absolute: string, follow = true): Promise<Resolved> {
  const { root } = parse(absolute);
  let real = root;
  let links = 0;
  const passed: string[] = [];
  const left = names(absolute.slice(root.length)).reverse();
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (name === '..') {
      real = dirname(real);
      continue;
    }
    passed.push(real);
    const next = join(real, name);
    try {
      const isLink = (await lstat(next)).isSymbolicLink();
      if (!isLink || (!follow && left.length === 0)) {
        real = next;
        continue;
      }
      if (++links > mostLinks) throw new Unresolved('ELOOP', real);
      const target = await readlink(next);
      if (parse(target).root !== '') real = parse(target).root;
      left.push(...names(target.slice(parse(target).root.length)).reverse());
    } catch (error) {
      const code = codeOf(error);
      if (code === undefined || error instanceof Unresolved) throw error;
      const missing = [name, ...left.reverse()];
      if (code !== 'ENOENT' || missing.includes('..')) throw new Unresolved(code, real);
      return { real, missing, passed };
    }
  }
  return { real, missing: [], passed };
}

export const isWithin = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
