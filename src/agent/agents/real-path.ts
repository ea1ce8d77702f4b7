import { lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/**
 * Resolves all symbolic links of a path; the part that does not exist yet stays as written.
 * @returns undefined for a dangling link or an unreadable folder
 */
export function resolveRealPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const parent = dirname(path);
    if ((code !== 'ENOENT' && code !== 'ENOTDIR') || parent === path || exists(path)) return undefined;
    const realParent = resolveRealPath(parent);
    return realParent === undefined ? undefined : join(realParent, basename(path));
  }
}

/** True for dangling links, too. */
const exists = (path: string) => {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
};
