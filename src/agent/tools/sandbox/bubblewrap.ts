import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { mountArguments, type Mounts } from './mounts.ts';
import { ProcessGroup } from './process-group.ts';

const run = promisify(execFile);

/** Resource limits of one command. */
export interface SandboxLimits {
  /** Private writable memory of one process. */
  readonly processBytes: number;
  /** Resident memory of all processes together. */
  readonly totalBytes: number;
  readonly processes: number;
  /** Size of one file. */
  readonly fileBytes: number;
  /** Size of /tmp, and of /dev/shm. */
  readonly scratchBytes: number;
  /** Output after which the command is ended. Only the beginning and the end of the output are kept. */
  readonly printedBytes: number;
}

export const usualLimits: SandboxLimits = {
  processBytes: 4 * 1024 ** 3,
  totalBytes: 4 * 1024 ** 3,
  processes: 256,
  fileBytes: 1024 ** 3,
  scratchBytes: 512 * 1024 ** 2,
  printedBytes: 64 * 1024 ** 2,
};

export const environment: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/tmp',
  TMPDIR: '/tmp',
  LANG: 'C.UTF-8',
  TERM: 'dumb',
};

/** A working bubblewrap installation. */
export class Bubblewrap {
  readonly #nested: readonly string[];
  /** Whether prlimit is available. Without it only the total memory and the number of processes are limited. */
  readonly #limits: boolean;

  readonly #groups = ProcessGroup.place();

  private constructor(nested: readonly string[], limits: boolean) {
    this.#nested = nested;
    this.#limits = limits;
  }

  /** Control group for one command; undefined when control groups are not used. */
  group({ processes }: SandboxLimits): ProcessGroup | undefined {
    // Above the monitored limit, so that the monitor reports the reason.
    return this.#groups === undefined ? undefined : ProcessGroup.make(this.#groups, processes + 16);
  }

  /** Checks bubblewrap by running `true` in a sandbox. @returns the reason as a sentence when it does not work */
  static async probe(program = 'bwrap'): Promise<Bubblewrap | string> {
    if (process.platform !== 'linux')
      return 'Commands run only inside bubblewrap, which there is on Linux alone.';
    let help: string;
    try {
      help = (await run(program, ['--help'], { env: environment })).stdout;
    } catch {
      return 'Commands run only inside bubblewrap, and there is no `bwrap` on this machine; install bubblewrap and start the host again.';
    }
    if (!help.includes('--size'))
      return 'The bubblewrap of this machine is too old (before 0.5); install a newer one and start the host again.';
    // Since 0.8: processes inside cannot create namespaces, in which they could change mounts.
    const nested = help.includes('--disable-userns') ? ['--disable-userns'] : [];
    const limits = await run('prlimit', ['--version'], { env: environment }).then(
      () => true,
      () => false,
    );
    const found = new Bubblewrap(nested, limits);
    const [command = program, ...args] = found.command(
      ['true'],
      { roots: [], forbidden: [] },
      { ...usualLimits, cwd: '/tmp' },
    );
    try {
      await run(command, args, { env: environment, timeout: 10_000 });
      return found;
    } catch (error) {
      const told = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error);
      const line = told.trim().split('\n').at(-1) ?? '';
      return `Commands run only inside bubblewrap, which does not work here: ${line.slice(0, 200)}. Inside a container it needs one that allows user namespaces and mounting /proc.`;
    }
  }

  /**
   * Builds the command line.
   * @param cwd absolute path inside the sandbox
   */
  command(
    argv: readonly string[],
    mounts: Mounts,
    { cwd, ...limits }: SandboxLimits & { readonly cwd: string },
    infoFd?: number,
  ): string[] {
    const namespaces = ['user', 'pid', 'net', 'ipc', 'uts', 'cgroup-try'].map((one) => `--unshare-${one}`);
    return [
      this.#limits ? prlimit(limits) : [],
      ['bwrap', ...namespaces, ...this.#nested, '--die-with-parent', '--new-session'],
      ['--cap-drop', 'ALL', '--hostname', 'sandbox'],
      infoFd === undefined ? [] : ['--info-fd', String(infoFd)],
      mountArguments(mounts, limits.scratchBytes),
      ['--chdir', cwd, '--', ...argv],
    ].flat();
  }
}

const prlimit = (limits: SandboxLimits): string[] => [
  'prlimit',
  '--core=0',
  '--nofile=1024',
  `--data=${limits.processBytes}`,
  `--fsize=${limits.fileBytes}`,
  // The kernel does not apply this to root; a control group (process-cgroup.ts) and a monitor (monitor-limits.ts) do.
  `--nproc=${limits.processes * 8}`,
];
