import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import type { Plugin } from 'vite';

/** web-llm and its models need a network anyway, and its code is larger than everything else. */
const excluded = /web-llm/;

/**
 * Writes the list of the demo's files, with their digests, into its service worker: the page, and every file of the build
 * that one of them names.
 * @param page path of the demo's page in the build, whose folder also has the service worker
 */
export const serviceWorkerPlugin = (page: string): Plugin => ({
  name: 'service-worker',
  // Development servers have no service worker.
  config: (_, { command }) => ({
    define: { 'import.meta.env.HAS_SERVICE_WORKER': JSON.stringify(command === 'build') },
  }),
  writeBundle: {
    order: 'post',
    handler({ dir = '' }) {
      const script = join(dir, dirname(page), 'service-worker.js');
      const paths = (readdirSync(dir, { recursive: true }) as string[])
        .map((path) => path.replaceAll('\\', '/'))
        .filter((path) => /\.\w+$/.test(path) && !excluded.test(path));
      const contents = new Map(paths.map((path) => [path, readFileSync(join(dir, path))]));
      const code = readFileSync(script, 'utf8');
      const files = Object.fromEntries(
        namedFiles(page, contents)
          .sort()
          .map((path) => [pathFrom(page, path), digest(contents.get(path))]),
      );
      const version = createHash('sha256')
        .update(JSON.stringify(files) + code)
        .digest('hex')
        .slice(0, 16);
      writeFileSync(script, `const precache=${JSON.stringify({ version, files })};\n${code}`);
    },
  },
});

/** Path of a file from the folder of the page; servers have the page at the folder itself. */
const pathFrom = (page: string, path: string): string =>
  path === page ? './' : relative(dirname(page), path).replaceAll('\\', '/');

/** The page, and every file that it or one of them names; the names of the build's files are unique. */
function namedFiles(page: string, contents: ReadonlyMap<string, Buffer>): string[] {
  const found = new Set([page]);
  for (const path of found) {
    if (!/\.(?:html|js|css)$/.test(path)) continue;
    const text = contents.get(path)?.toString('utf8') ?? '';
    for (const other of contents.keys())
      if (!/(?:\.html|\.md|service-worker\.js)$/.test(other) && text.includes(basename(other)))
        found.add(other);
  }
  return [...found];
}

const digest = (bytes: Buffer | undefined): string =>
  `sha256-${createHash('sha256')
    .update(bytes ?? '')
    .digest('base64')}`;
