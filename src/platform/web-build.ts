import { readdirSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { PageFiles } from '../http/static-files.ts';

/** The files that the web build wrote to `dist/web`; none if it was not run. */
export function webBuildFiles(packageRoot: string): PageFiles {
  const folder = join(packageRoot, 'dist', 'web');
  return { list: () => filesBelow(folder), read: (path) => readFile(join(folder, path)) };
}

/** A value that changes with the file. */
export const fileVersion = (file: string): string => {
  const { mtimeMs, size } = statSync(file);
  return `${mtimeMs} ${size}`;
};

function filesBelow(folder: string): Map<string, string> {
  const files = new Map<string, string>();
  try {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const file = join(entry.parentPath, entry.name);
      files.set(`/${relative(folder, file).replaceAll('\\', '/')}`, fileVersion(file));
    }
  } catch {
    // The process runs from its sources without a web build, or the build is in progress.
  }
  return files;
}
