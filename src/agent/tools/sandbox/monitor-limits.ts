import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { SandboxLimits } from './bubblewrap.ts';

const checkIntervalMs = 100;
const pageBytes = 4096; // larger on some machines, where the result is then too low

/**
 * Processes and resident memory of a PID namespace. Rlimits apply per process, and process counts do not apply to root.
 */
function readUsage(namespace: string): { processes: number; bytes: number } {
  let processes = 0;
  let bytes = 0;
  for (const id of readdirSync('/proc')) {
    if (!/^\d+$/.test(id)) continue;
    try {
      if (readlinkSync(`/proc/${id}/ns/pid`) !== namespace) continue;
      processes += 1;
      bytes += Number(readFileSync(`/proc/${id}/statm`, 'latin1').split(' ')[1] ?? 0) * pageBytes;
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
  return { processes, bytes };
}

/**
 * Checks ten times a second whether a sandbox exceeds its limits.
 * @param child pid of its first process in the host's namespace
 * @param exceeded called once, with the exceeded limit
 * @returns a function that stops the checks
 */
export function monitorLimits(
  childPid: number,
  limits: Pick<SandboxLimits, 'totalBytes' | 'processes'>,
  onExceeded: (exceededLimit: string) => void,
): () => void {
  let namespace: string;
  try {
    namespace = readlinkSync(`/proc/${childPid}/ns/pid`);
  } catch {
    return () => undefined; // the process has already ended
  }
  const timer = setInterval(() => {
    const { processes, bytes } = readUsage(namespace);
    const exceededLimit =
      processes > limits.processes
        ? `it started more than ${limits.processes} processes`
        : bytes > limits.totalBytes
          ? `it used more than ${limits.totalBytes} bytes of memory`
          : undefined;
    if (exceededLimit === undefined) return;
    clearInterval(timer);
    onExceeded(exceededLimit);
  }, checkIntervalMs);
  return () => clearInterval(timer);
}
