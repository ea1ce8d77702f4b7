import { createHash } from 'node:crypto';
import { totalmem } from 'node:os';
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Platform, Store } from '../engine/index.ts';
import type { HubAccess } from '../pull/hub.ts';
import type { HttpOptions } from './http-file.ts';
import { hubPrefix } from '../pull/reference.ts';
import { requestAdapter } from './node-adapter.ts';
import { openLocalFiles } from './node-folder.ts';
import { hubFiles } from './node-hub.ts';
import { webFiles } from './web-folder.ts';
import { packageRoot } from './node-package.ts';

/** Default backends of Dawn's binding. */
const backends: Readonly<Record<string, string>> = { linux: 'vulkan', darwin: 'metal', win32: 'd3d12' };

/**
 * Platform for Node: Dawn's binding, files, HTTP.
 * @param store store for measurements of this machine; without it nothing is measured
 * @param hub hub for `hf:` locations
 * @param http options of HTTP requests
 */
export const nodePlatform = (
  store?: Store,
  hub: HubAccess = {},
  http: Pick<HttpOptions, 'onNotice'> = {},
): Platform => ({
  name: 'node',
  ...(store ? { store } : {}),
  backend: backends[process.platform] ?? 'webgpu',
  requestAdapter,
  wgsl: readWgsl,
  processorMs() {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  },
  modelFiles(location) {
    if (location.startsWith(hubPrefix)) return hubFiles(location, hub, http);
    if (/^https?:\/\//i.test(location)) return webFiles(location, http);
    return openLocalFiles(/^file:\/\//i.test(location) ? fileURLToPath(location) : location);
  },
  sha256() {
    const hash = createHash('sha256');
    return {
      update(bytes) {
        hash.update(bytes);
      },
      digest: () => hash.digest('hex'),
    };
  },
  memoryBytes: usableMemoryBytes,
});

/** Memory of the machine for models, in bytes: a part of its container's, where it is in one. */
export function usableMemoryBytes(): number {
  // The rest is left for other processes.
  const limit = process.constrainedMemory();
  return 0.8 * (limit > 0 ? Math.min(limit, totalmem()) : totalmem());
}

const readWgsl = async (): Promise<Map<string, string>> => {
  const folder = join(packageRoot(), 'wgsl');
  const paths: string[] = [];
  for await (const path of glob('**/*.wgsl', { cwd: folder })) paths.push(path);
  paths.sort();
  return new Map(
    await Promise.all(
      paths.map(
        async (path) => [path.replaceAll('\\', '/'), await readFile(join(folder, path), 'utf8')] as const,
      ),
    ),
  );
};
