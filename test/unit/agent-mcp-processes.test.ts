import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, expect, test } from 'vitest';
import { isAlive } from '../support/mcp-servers.ts';
import { supportProgram } from '../support/host.ts';

const script = supportProgram('mcp-owner');
const owners: ChildProcess[] = [];
afterEach(() => {
  for (const owner of owners.splice(0)) owner.kill('SIGKILL');
});

/** A process that owns a server; resolves when it has printed the server's pid. */
async function start(mode: string, end: string): Promise<{ owner: ChildProcess; server: number }> {
  const child = spawn(process.execPath, ['--no-warnings', script, mode, end], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  owners.push(child);
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { owner: child, server: Number(line.toString()) };
}
async function gone(pid: number): Promise<void> {
  while (await isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
}

test('a host that exits without closing kills its servers', async () => {
  const { owner: host, server } = await start('stubborn', 'exit');
  if (host.exitCode === null) await once(host, 'exit');
  await gone(server);
  expect(host.exitCode).toBe(0);
});

test('a server ends when its host is killed with SIGKILL', async () => {
  const { owner: host, server } = await start('serve', 'wait');
  expect(await isAlive(server)).toBe(true);
  host.kill('SIGKILL');
  await gone(server);
});
