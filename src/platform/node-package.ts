import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

let found: string | undefined;

/**
 * The folder of `wgsl/`, `models/` and `node_modules/`: the nearest parent folder with lathe's package.json. The result
 * is the same for `src/platform/` and for the bundle in `dist/`.
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

/** Version of an installed dependency; `unknown` when its package.json cannot be read. */
export const dependencyVersion = (name: string): string =>
  versionIn(join(packageRoot(), 'node_modules', name));

const versionIn = (folder: string): string => {
  try {
    const text = readFileSync(join(folder, 'package.json'), 'utf8');
    const { version } = JSON.parse(text) as { version?: unknown };
    return typeof version === 'string' ? version : 'unknown';
  } catch {
    return 'unknown';
  }
};
