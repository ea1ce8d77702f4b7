import { lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/**
 * A path with all links resolved; what is not there yet stays as it is written.
 * @returns nothing where that cannot be said: a link that leads nowhere, a folder that may not be read
 */
export function realPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const parent = dirname(path);
    if ((code !== 'ENOENT' && code !== 'ENOTDIR') || parent === path || isThere(path)) return undefined;
    const above = realPath(parent);
    return above === undefined ? undefined : join(above, basename(path));
  }
}

/** Also a link that leads nowhere is. */
const isThere = (path: string) => {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
};
