import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { type PostgresServer, startPostgres } from './postgres-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A socket that says where PostgreSQL is, and starts it for who asks first. */
    postgresDoor: string;
  }
}

/** One server for a whole run, of the process that outlives the workers; none where no test asks. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (process.platform === 'win32') return () => Promise.resolve();
  const folder = mkdtempSync(join(tmpdir(), 'lathe-door-'));
  const postgresDoor = join(folder, 'door');
  let server: Promise<PostgresServer> | undefined;
  const door = createServer((socket) => {
    socket.on('error', () => undefined);
    server ??= startPostgres();
    server.then(
      (started) => socket.end(JSON.stringify({ folder: started.folder })),
      (error: unknown) => socket.end(JSON.stringify({ failure: String(error) })),
    );
  });
  await new Promise<void>((resolve, reject) => {
    door.on('error', reject).listen(postgresDoor, resolve);
  });
  project.provide('postgresDoor', postgresDoor);
  return async () => {
    door.close();
    const started = await server?.catch(() => undefined);
    await started?.stop();
    rmSync(folder, { recursive: true, force: true });
  };
}
