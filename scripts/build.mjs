/** Builds `dist/` if it is missing or older than its sources. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Build targets with their sources and options. The first one empties `dist/`. */
const parts = [
  {
    product: 'dist/host.js',
    // Shaders are not sources: the host reads them from `wgsl/` at run time.
    sources: ['src', 'kernels', 'vite.config.ts', 'package.json', 'package-lock.json'],
    options: [],
  },
  {
    product: 'dist/web/index.html',
    sources: ['web', 'src', 'kernels', 'wgsl', 'models', 'package.json', 'package-lock.json'],
    options: ['--config', 'web/vite.config.ts'],
  },
];
/** What only the packages need (scripts/packages.mjs). */
const packageParts = [
  {
    product: 'dist/lathe-web/index.js',
    sources: [...parts[1].sources, 'packages'],
    options: ['--config', 'packages/engine.config.ts'],
  },
  {
    product: 'dist/types/index.d.ts',
    sources: ['web/engine', 'web/api', 'src', 'kernels', 'packages', 'package.json', 'package-lock.json'],
    options: ['--config', 'packages/types.config.ts'],
  },
];
/** Programs of the tests. */
const testPrograms = {
  product: 'node_modules/.lathe-tests/scripted-host.js',
  sources: ['test/programs.config.ts', 'test/support', 'src', 'kernels', 'package.json', 'package-lock.json'],
  options: ['--config', 'test/programs.config.ts'],
};

/**
 * @param options.withTests whether the programs of the tests are built, too
 * @param options.withPackages whether the modules and types of the packages are built, too
 * @returns whether what was asked for exists and is up to date
 */
export function buildIfNeeded({ withTests = false, withPackages = false } = {}) {
  const isCurrent = ({ product, sources }) => {
    const built = join(root, product);
    return (
      existsSync(built) && newest(sources.map((source) => join(root, source))) <= statSync(built).mtimeMs
    );
  };
  const current = parts.every(isCurrent);
  const stale = [
    // The first of them empties the folder of all.
    ...(current ? [] : parts),
    ...(withPackages ? packageParts.filter((part) => !current || !isCurrent(part)) : []),
    ...(withTests && !isCurrent(testPrograms) ? [testPrograms] : []),
  ];
  if (stale.length === 0) return true;
  const vite = join(root, 'node_modules/vite/bin/vite.js');
  if (!existsSync(vite)) {
    process.stderr.write('Build: vite is not installed; run `npm ci` first.\n');
    return false;
  }
  process.stderr.write(`Build: building ${stale.map(({ product }) => product).join(', ')} ...\n`);
  return stale.every(({ options }) => {
    const { status, stdout } = spawnSync(
      process.execPath,
      [vite, 'build', '--logLevel', 'warn', ...options],
      {
        cwd: root,
        stdio: ['ignore', 'pipe', 'inherit'],
        encoding: 'utf8',
      },
    );
    if (status !== 0) process.stderr.write(`${stdout}Build: failed.\n`);
    return status === 0;
  });
}

/** Time of the last change under these paths, in ms. Folders count, because they change when a file is deleted. */
function newest(paths) {
  return Math.max(
    0,
    ...paths.map((path) => {
      const stat = statSync(path, { throwIfNoEntry: false });
      if (!stat) return 0;
      if (!stat.isDirectory()) return stat.mtimeMs;
      return Math.max(stat.mtimeMs, newest(readdirSync(path).map((name) => join(path, name))));
    }),
  );
}
