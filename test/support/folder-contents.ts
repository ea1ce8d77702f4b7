import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

/** Every file below a folder by its name there, for `memoryFiles`. */
export const folderContents = (folder: string): Record<string, Uint8Array> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => {
        const path = join(entry.parentPath, entry.name);
        return [relative(folder, path).split(sep).join('/'), new Uint8Array(readFileSync(path))];
      }),
  );
