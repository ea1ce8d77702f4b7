import { readdirSync, readFileSync } from 'node:fs';

/** A killed process may have started another one between being listed and being killed. */
const maxPasses = 3;

/**
 * Kills every process whose command line contains a text. Linux; elsewhere none is found.
 * @returns whether there was one
 */
export function killMarked(mark: string): boolean {
  let hasFound = false;
  for (let pass = 0; pass < maxPasses; pass++) {
    const found = findMarked(mark);
    if (found.length === 0) break;
    hasFound = true;
    for (const pid of found) kill(pid);
  }
  return hasFound;
}

function findMarked(mark: string): number[] {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return [];
  }
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  return pids.filter((pid) => pid !== process.pid && commandLineOf(pid).includes(mark));
}

/** Empty for a process that has ended and was not waited for. */
function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return '';
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
