import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

let found: string | undefined;

/**
 * The folder of `wgsl/`, `models/` and `workflows/`: the nearest parent folder with lathe's package.json. The result is the
 * same for `src/platform/` and for the bundle in `dist/`.
 */
export const packageRoot = (): string => {
  found ??= search(dirname(fileURLToPath(import.meta.url)));
  return found;
};

const search = (start: string): string => {
  for (let folder = start; ; folder = dirname(folder)) {
    if (packageName(folder) === 'lathe') return folder;
    if (dirname(folder) === folder) {
      throw new Error(`no package.json of lathe above ${start}: keep dist/ inside the package`);
    }
  }
};

const packageName = (folder: string): unknown => {
  try {
    const manifest: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    return manifest instanceof Object && 'name' in manifest ? manifest.name : undefined;
  } catch {
    // Most folders have none.
    return undefined;
  }
};

/** Version of this package. */
export const ownVersion = (): string => versionIn(packageRoot());

/**
 * Path of a file of an installed dependency, such as `webgpu/package.json`. In the repository dependencies are below the package;
 * where lathe itself is installed they are usually beside it, in a `node_modules` of a parent folder.
 * @returns undefined if there is no such file
 */
export const dependencyFile = (
  path: string,
  root = packageRoot(),
  exists: (file: string) => boolean = existsSync,
): string | undefined => {
  for (let folder = root; ; folder = dirname(folder)) {
    const file = join(folder, 'node_modules', path);
    if (exists(file)) return file;
    if (dirname(folder) === folder) return undefined;
  }
};

/** Version of an installed dependency; `unknown` when its package.json cannot be read. */
export const dependencyVersion = (name: string): string => {
  const manifest = dependencyFile(join(name, 'package.json'));
  return manifest === undefined ? 'unknown' : versionIn(dirname(manifest));
};

const versionIn = (folder: string): string => {
  try {
    const text = readFileSync(join(folder, 'package.json'), 'utf8');
    const { version } = JSON.parse(text) as { version?: unknown };
    return typeof version === 'string' ? version : 'unknown';
  } catch {
    return 'unknown';
  }
};
