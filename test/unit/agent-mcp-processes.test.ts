import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StartedProcesses } from '../../src/agent/started-processes.ts';
import { isAlive } from '../support/mcp-servers.ts';
import { supportProgram } from '../support/host.ts';

const script = supportProgram('mcp-owner');
const owners: ChildProcess[] = [];
afterEach(() => {
  for (const owner of owners.splice(0)) owner.kill('SIGKILL');
});

/** A process that owns a server; resolves when it has printed the server's pid. */
async function start(
  mode: string,
  end: string,
  folder?: string,
): Promise<{ owner: ChildProcess; server: number }> {
  const child = spawn(
    process.execPath,
    ['--no-warnings', script, mode, end, ...(folder === undefined ? [] : [folder])],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
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

describe.skipIf(process.platform !== 'linux')(
  'a server that ignores the end of its input and SIGTERM',
  () => {
    let folder = '';
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'lathe-processes-'));
    });
    afterEach(() => rm(folder, { recursive: true, force: true }));

    test('is ended by the next start when its host was killed', async () => {
      const { owner: host, server } = await start('stubborn', 'wait', folder);
      host.kill('SIGKILL');
      await once(host, 'exit');
      expect(await isAlive(server)).toBe(true);
      expect(new StartedProcesses(folder).endLeftovers()).toBe(1);
      await gone(server);
      expect(await readdir(folder)).toEqual([]);
    });

    test('is ended where the leader of its group has ended before it', async () => {
      // As a killed bwrap leaves the child that has not asked yet to end with it.
      const leader = spawn('sh', ['-c', 'sleep 300 & echo $!; exec sleep 0.3'], {
        detached: true,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      new StartedProcesses(folder).add(leader.pid, { isGroup: true });
      const [output] = (await once(leader.stdout, 'data')) as [Buffer];
      await once(leader, 'exit');
      const left = Number(output.toString());
      expect(await isAlive(left)).toBe(true);
      expect(new StartedProcesses(folder).endLeftovers()).toBe(1);
      await gone(left);
    });

    test('is ended by its command line, in whatever group it is, and what has another one is left alone', async () => {
      const mark = `lathe-${randomUUID()}`;
      const processes = new StartedProcesses(folder);
      const forget = processes.addMarked(mark);
      const startShell = async (text: string) => {
        const child = spawn('sh', ['-c', 'sleep 300 & echo $!; wait', text], {
          detached: true,
          stdio: ['ignore', 'pipe', 'ignore'],
        });
        await once(child.stdout, 'data');
        return child;
      };
      const [own, other] = await Promise.all([startShell(mark), startShell('lathe-other')]);
      // As a later start of the host.
      expect(new StartedProcesses(folder).endLeftovers()).toBe(1);
      await gone(own.pid ?? 0);
      expect(await isAlive(other.pid ?? 0)).toBe(true);
      process.kill(-(other.pid ?? 0), 'SIGKILL');
      process.kill(-(own.pid ?? 0), 'SIGKILL');
      expect(await readdir(folder)).toEqual([]);
      forget();
    });

    test('another process with its pid is left alone, and so is what cannot be read', async () => {
      const forget = new StartedProcesses(folder).add(process.pid, { isGroup: false });
      const [name = ''] = await readdir(folder);
      const record = JSON.parse(await readFile(join(folder, name), 'utf8')) as object;
      await writeFile(join(folder, name), JSON.stringify({ ...record, started: '1' }));
      await writeFile(join(folder, 'torn.json'), '{"pid":1');
      await writeFile(join(folder, 'all.json'), JSON.stringify({ ...record, pid: -1 }));
      expect(new StartedProcesses(folder).endLeftovers()).toBe(0);
      expect(await readdir(folder)).toEqual([]);
      forget();
    });
  },
);
