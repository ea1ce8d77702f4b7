/** Runs an apt command quietly. Waits for other processes that use apt. */
import { spawnSync } from 'node:child_process';

/** @returns its exit status and output */
export function runAsRoot(command) {
  const { status, stdout, stderr, error } = spawnSync(
    'sh',
    ['-c', command.replace(/^apt-get/, 'apt-get -o DPkg::Lock::Timeout=120')],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      encoding: 'utf8',
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' },
    },
  );
  return { status, output: `${stdout ?? ''}${stderr ?? ''}${error ? error.message : ''}` };
}
