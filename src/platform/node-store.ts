import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import process from 'node:process';
import type { Store } from '../engine/index.ts';

/** `lathe` in the XDG cache directory, for data that can be deleted and is then recreated. */
export function cacheDir(env: Readonly<Record<string, string | undefined>>, home = homedir()): string {
  const xdg = env['XDG_CACHE_HOME'];
  // The XDG specification ignores relative values.
  return join(xdg && isAbsolute(xdg) ? xdg : join(home, '.cache'), 'lathe');
}

/** Stores texts as files in a folder, which is created at the first write. An interrupted write leaves the old text. */
export const fileStore = (folder: string): Store => ({
  async read(name) {
    try {
      return await readFile(join(folder, name), 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  },
  async write(name, text) {
    await mkdir(folder, { recursive: true });
    const partial = join(folder, `${name}.${process.pid}.part`);
    await writeFile(partial, text);
    await rename(partial, join(folder, name));
  },
});
