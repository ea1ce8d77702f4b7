import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg, release, totalmem, type } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  /** Widest vector extension, if the system reports it. */
  readonly vectors?: string;
  readonly memoryBytes: number;
  readonly system: string;
}

export interface Versions {
  readonly lathe: string;
  readonly commit?: string;
  readonly node: string;
  readonly webgpu: string;
}

export async function describeMachine(): Promise<Machine> {
  const info = await readFile('/proc/cpuinfo', 'utf8').catch(() => '');
  const flags = new Set(/^flags\s*:(.*)$/m.exec(info)?.[1]?.split(/\s+/));
  const vectors = flags.has('avx512f') ? 'AVX-512' : flags.has('avx2') ? 'AVX2' : undefined;
  return {
    cpu: cpus()[0]?.model ?? process.arch,
    cores: availableParallelism(),
    ...(vectors === undefined ? {} : { vectors }),
    memoryBytes: totalmem(),
    system: `${type()} ${release()}`,
  };
}

export async function versions(): Promise<Versions> {
  const commit = await promisify(execFile)('git', ['describe', '--always', '--dirty'], { cwd: root }).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
  return {
    lathe: await versionIn('package.json'),
    ...(commit === undefined ? {} : { commit }),
    node: process.versions.node,
    webgpu: await versionIn('node_modules/webgpu/package.json'),
  };
}

/** One-minute load average; 0 when the system has none. */
export const loadAverage = (): number => Number((loadavg()[0] ?? 0).toFixed(2));

const root = fileURLToPath(new URL('..', import.meta.url));

async function versionIn(path: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(`${root}/${path}`, 'utf8'));
  return (manifest as { version: string }).version;
}
