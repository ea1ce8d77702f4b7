import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { SandboxLimits } from './bubblewrap.ts';

const everyMs = 100;
const pageBytes = 4096; // larger on some machines: then we count too little

/** What all processes of a PID namespace use. Limits of the kernel are for each process, and none of a number count for root. */
function used(namespace: string): { processes: number; bytes: number } {
  let processes = 0;
  let bytes = 0;
  for (const id of readdirSync('/proc')) {
    if (!/^\d+$/.test(id)) continue;
    try {
      if (readlinkSync(`/proc/${id}/ns/pid`) !== namespace) continue;
      processes += 1;
      bytes += Number(readFileSync(`/proc/${id}/statm`, 'latin1').split(' ')[1] ?? 0) * pageBytes;
    } catch {
      // Ended meanwhile, or somebody else's.
    }
  }
  return { processes, bytes };
}

/**
 * Looks ten times a second whether a sandbox keeps within its limits.
 * @param child its first process, as the host calls it
 * @param exceeded called once, with what it did
 * @returns ends the watch
 */
export function watch(
  child: number,
  limits: Pick<SandboxLimits, 'totalBytes' | 'processes'>,
  exceeded: (what: string) => void,
): () => void {
  let namespace: string;
  try {
    namespace = readlinkSync(`/proc/${child}/ns/pid`);
  } catch {
    return () => undefined; // over already
  }
  const timer = setInterval(() => {
    const { processes, bytes } = used(namespace);
    const what =
      processes > limits.processes
        ? `it started more than ${limits.processes} processes`
        : bytes > limits.totalBytes
          ? `it used more than ${limits.totalBytes} bytes of memory`
          : undefined;
    if (what === undefined) return;
    clearInterval(timer);
    exceeded(what);
  }, everyMs);
  return () => clearInterval(timer);
}
