import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface StartedProcess {
  readonly pid: number;
  /** Start time of the process, in clock ticks since the boot. */
  readonly started: string;
  readonly boot: string;
  /** Whether it leads a process group of its own. */
  readonly isGroup: boolean;
}

/**
 * Records of the programs that a host has started, MCP servers and commands. A host that was killed cannot end them, and
 * some outlive it; the next start does. Linux; elsewhere nothing is recorded.
 */
export class StartedProcesses {
  readonly #folder: string | undefined;

  /** @param folder undefined: nothing is recorded */
  constructor(folder: string | undefined) {
    this.#folder = process.platform === 'linux' ? folder : undefined;
  }

  /** Records a process. @returns a function that forgets it, for when it has ended */
  add(pid: number | undefined, { isGroup }: { readonly isGroup: boolean }): () => void {
    const started = pid === undefined ? undefined : startTimeOf(pid);
    if (this.#folder === undefined || pid === undefined || started === undefined) return () => undefined;
    const path = join(this.#folder, `${pid}.json`);
    const record: StartedProcess = { pid, started, boot: bootId(), isGroup };
    try {
      mkdirSync(this.#folder, { recursive: true });
      writeFileSync(path, JSON.stringify(record));
    } catch {
      // On a full disk the program runs without a record.
    }
    return () => rmSync(path, { force: true });
  }

  /** Ends what the previous process of this host left running. @returns the number of ended programs */
  endLeftovers(): number {
    if (this.#folder === undefined) return 0;
    let ended = 0;
    for (const name of listFiles(this.#folder)) {
      const path = join(this.#folder, name);
      const record = readRecord(path);
      if (record && record.boot === bootId() && isStillOurs(record)) ended += Number(kill(record));
      rmSync(path, { force: true });
    }
    return ended;
  }
}

/**
 * Its pid may be that of another process by now. Where no process has it, a group of that number is what the ended leader has
 * left: a number is not given away while a group has it.
 */
function isStillOurs({ pid, started, isGroup }: StartedProcess): boolean {
  const current = startTimeOf(pid);
  return current === started || (isGroup && current === undefined);
}

function kill({ pid, isGroup }: StartedProcess): boolean {
  try {
    process.kill(isGroup ? -pid : pid, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}

function listFiles(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function readRecord(path: string): StartedProcess | undefined {
  try {
    const record = JSON.parse(readFileSync(path, 'utf8')) as Partial<StartedProcess>;
    return Number.isSafeInteger(record.pid) && (record.pid ?? 0) > 1 ? (record as StartedProcess) : undefined;
  } catch {
    // The host was killed while it wrote this.
    return undefined;
  }
}

const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();

/** Field 22 of `/proc/PID/stat`; the name, field 2, may contain anything. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
