import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { killMarked } from './marked-processes.ts';

/** A process by its number. */
interface NumberedProcess {
  readonly pid: number;
  /** Start time of the process, in clock ticks since the boot. */
  readonly started: string;
  readonly boot: string;
  /** Whether it leads a process group of its own. */
  readonly isGroup: boolean;
}

/** Processes by a text in their command lines. */
interface MarkedProcess {
  readonly mark: string;
  readonly boot: string;
}
type StartedProcess = NumberedProcess | MarkedProcess;

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
    return this.#write(String(pid), { pid, started, boot: bootId(), isGroup });
  }

  /**
   * Records a program before it is started, so that it is found whenever the host is killed, with the processes that have its
   * command line. @param mark a text that no other command line has
   */
  addMarked(mark: string): () => void {
    if (this.#folder === undefined) return () => undefined;
    return this.#write(mark, { mark, boot: bootId() });
  }

  #write(name: string, record: StartedProcess): () => void {
    const folder = this.#folder ?? '';
    const path = join(folder, `${name}.json`);
    try {
      mkdirSync(folder, { recursive: true });
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
      if (record?.boot === bootId()) ended += Number(endLeftover(record));
      rmSync(path, { force: true });
    }
    return ended;
  }
}

/** @returns whether the program was running */
const endLeftover = (record: StartedProcess): boolean =>
  'mark' in record ? killMarked(record.mark) : isStillOurs(record) && kill(record);

/**
 * Its pid may be that of another process by now. Where no process has it, a group of that number is what the ended leader has
 * left: a number is not given away while a group has it.
 */
function isStillOurs({ pid, started, isGroup }: NumberedProcess): boolean {
  const current = startTimeOf(pid);
  return current === started || (isGroup && current === undefined);
}

function kill({ pid, isGroup }: NumberedProcess): boolean {
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
    const record = JSON.parse(readFileSync(path, 'utf8')) as Partial<NumberedProcess & MarkedProcess>;
    // An empty text would be in every command line.
    const isMarked = typeof record.mark === 'string' && record.mark.length > 20;
    const isNumbered = Number.isSafeInteger(record.pid) && (record.pid ?? 0) > 1;
    return isMarked || isNumbered ? (record as StartedProcess) : undefined;
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
