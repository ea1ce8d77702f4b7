import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'vite';
import { repository } from './host.ts';

let built: Promise<string> | undefined;

/** Builds the demo and the engine's module once for all files of a worker. */
async function buildOnce(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-demo-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  await build({
    configFile: join(repository, 'web/vite.config.ts'),
    mode: 'demo',
    logLevel: 'warn',
    build: { outDir: join(folder, 'site') },
  });
  return join(folder, 'site');
}

/** Writes the built demo into this folder, which the caller owns. */
export async function writeDemoSite(folder: string): Promise<void> {
  cpSync(await (built ??= buildOnce()), folder, { recursive: true });
}
