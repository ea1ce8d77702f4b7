/** Builds `dist/` where it is missing or older than its sources. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** What is built, of what, and how; the first one empties `dist/` for all. */
const parts = [
  {
    product: 'dist/host.js',
    // The shaders are not among them: the host reads them from `wgsl/` as they are.
    sources: ['src', 'kernels', 'vite.config.ts', 'package.json', 'package-lock.json'],
    options: [],
  },
  {
    product: 'dist/web/index.html',
    sources: ['web', 'src', 'kernels', 'wgsl', 'models', 'package.json', 'package-lock.json'],
    options: ['--config', 'web/vite.config.ts'],
  },
];

/** @returns whether `dist/` is there and current */
export function buildIfNeeded() {
  const isCurrent = ({ product, sources }) => {
    const built = join(root, product);
    return (
      existsSync(built) && newest(sources.map((source) => join(root, source))) <= statSync(built).mtimeMs
    );
  };
  if (parts.every(isCurrent)) return true;
  const vite = join(root, 'node_modules/vite/bin/vite.js');
  if (!existsSync(vite)) {
    process.stderr.write('Build: vite is not installed; run `npm ci` first.\n');
    return false;
  }
  process.stderr.write('Build: making dist/ ...\n');
  return parts.every(({ options }) => {
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

/** The time of the last change below these paths, in ms. Folders count too: they change when a file goes. */
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
