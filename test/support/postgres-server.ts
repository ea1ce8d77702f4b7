import { spawn, spawnSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

export interface PostgresServer {
  /** Where its socket is. */
  readonly folder: string;
  /** Ends the server and keeps its data. SIGINT: what it does is undone; SIGQUIT: as a crash. */
  halt(signal: 'SIGINT' | 'SIGQUIT'): Promise<void>;
  startAgain(): Promise<void>;
  stop(): Promise<void>;
}

const debian = '/usr/lib/postgresql';
const prefix = 'lathe-postgres-';
/** Nothing here outlives the tests, so nothing needs to reach the disk. */
const settings = ['fsync=off', 'full_page_writes=off', 'max_connections=400', 'shared_buffers=32MB'];

/** The folder of PostgreSQL's programs; undefined where it is not installed. */
export function postgresPrograms(): string | undefined {
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(delimiter),
  ];
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name))));
}

/**
 * A server of its own in a temporary folder, behind a socket there. Ends with this process, however that ends.
 * @param more settings, as `fsync=on`
 */
export async function startPostgres(more: readonly string[] = []): Promise<PostgresServer> {
  const programs = postgresPrograms();
  if (programs === undefined) throw new Error('PostgreSQL is not installed');
  removeLeftovers();
  const folder = mkdtempSync(join(tmpdir(), prefix));
  writeFileSync(join(folder, 'owner'), String(process.pid));
  const data = join(folder, 'data');
  const user = unprivileged();
  if (user) chownSync(folder, user.uid, user.gid);
  const made = spawnSync(
    join(programs, 'initdb'),
    ['-D', data, '-U', 'lathe', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'],
    { ...user, cwd: folder, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr || made.error?.message}`);
  const command = [join(programs, 'postgres'), '-D', data, '-k', folder, '-c', 'listen_addresses='];
  const options = [...settings, ...more].flatMap((setting) => ['-c', setting]);
  const [program = '', ...args] = [...endingWithParent(), ...command, ...options];
  const start = () => startServer(program, args, { ...user, cwd: folder });
  let server = await start();
  return {
    folder,
    halt: (signal) => server.end(signal),
    async startAgain() {
      server = await start();
    },
    async stop() {
      await server.end('SIGQUIT');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Resolves when it takes connections. */
async function startServer(
  program: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly uid?: number; readonly gid?: number },
) {
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
  let errorOutput = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errorOutput = (errorOutput + text).slice(-4000);
  });
  const ended = new Promise<void>((resolve) => {
    child.on('error', () => resolve()).on('close', () => resolve());
  });
  const ready = new Promise<boolean>((resolve) => {
    child.stderr.on('data', () => {
      if (errorOutput.includes('ready to accept connections')) resolve(true);
    });
    void ended.then(() => resolve(false));
  });
  if (!(await ready)) throw new Error(`PostgreSQL did not start: ${errorOutput}`);
  return {
    async end(signal: NodeJS.Signals) {
      child.kill(signal);
      await ended;
    },
  };
}

/** PostgreSQL refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const user = users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody');
  return { uid: Number(user?.[2] ?? 65534), gid: Number(user?.[3] ?? 65534) };
}

/** Before a command: the kernel ends it where this process is killed and can end nothing any more. */
function endingWithParent(): string[] {
  const { status } = spawnSync('setpriv', ['--pdeathsig', 'QUIT', 'true']);
  return status === 0 ? ['setpriv', '--pdeathsig', 'QUIT'] : [];
}

/** Removes folders of test runs that were killed; their servers no longer run. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(tmpdir(), name);
    const [owner, server] = ['owner', 'data/postmaster.pid'].map((file) => pidIn(join(folder, file)));
    if (owner !== undefined && !isAlive(owner) && !(server !== undefined && isAlive(server)))
      rmSync(folder, { recursive: true, force: true });
  }
}

function pidIn(file: string): number | undefined {
  try {
    return Number.parseInt(readFileSync(file, 'utf8'), 10);
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
