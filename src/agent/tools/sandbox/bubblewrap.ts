import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { mountArguments, type Mounts } from './mounts.ts';
import { ProcessCgroup } from './process-cgroup.ts';

const runFile = promisify(execFile);

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

export const defaultLimits: SandboxLimits = {
  processBytes: 4 * 1024 ** 3,
  totalBytes: 4 * 1024 ** 3,
  processes: 256,
  fileBytes: 1024 ** 3,
  scratchBytes: 512 * 1024 ** 2,
  printedBytes: 64 * 1024 ** 2,
};

export const sandboxEnvironment: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/tmp',
  TMPDIR: '/tmp',
  LANG: 'C.UTF-8',
  TERM: 'dumb',
};

/** A working bubblewrap installation. */
export class Bubblewrap {
  readonly #usernsArguments: readonly string[];
  /** Whether prlimit is available. Without it only the total memory and the number of processes are limited. */
  readonly #hasPrlimit: boolean;

  readonly #cgroupParent = ProcessCgroup.findParent();

  private constructor(usernsArguments: readonly string[], limits: boolean) {
    this.#usernsArguments = usernsArguments;
    this.#hasPrlimit = limits;
  }

  /** Control group for one command; undefined when control groups are not used. */
  createGroup({ processes }: SandboxLimits): ProcessCgroup | undefined {
    // Above the monitored limit, so that the monitor reports the reason.
    return this.#cgroupParent === undefined
      ? undefined
      : ProcessCgroup.create(this.#cgroupParent, processes + 16);
  }

  /** Checks bubblewrap by running `true` in a sandbox. @returns the reason as a sentence when it does not work */
  static async probe(program = 'bwrap'): Promise<Bubblewrap | string> {
    if (process.platform !== 'linux')
      return 'Commands run only inside bubblewrap, which there is on Linux alone.';
    let help: string;
    try {
      help = (await runFile(program, ['--help'], { env: sandboxEnvironment })).stdout;
    } catch {
      return 'Commands run only inside bubblewrap, and there is no `bwrap` on this machine; install bubblewrap and start the host again.';
    }
    if (!help.includes('--size'))
      return 'The bubblewrap of this machine is too old (before 0.5); install a newer one and start the host again.';
    // Since 0.8: processes inside cannot create namespaces, in which they could change mounts.
    const usernsArguments = help.includes('--disable-userns') ? ['--disable-userns'] : [];
    const limits = await runFile('prlimit', ['--version'], { env: sandboxEnvironment }).then(
      () => true,
      () => false,
    );
    const bubblewrap = new Bubblewrap(usernsArguments, limits);
    const [command = program, ...args] = bubblewrap.buildCommand(
      ['true'],
      { roots: [], forbidden: [] },
      { ...defaultLimits, cwd: '/tmp' },
    );
    try {
      await runFile(command, args, { env: sandboxEnvironment, timeout: 10_000 });
      return bubblewrap;
    } catch (error) {
      const errorOutput = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error);
      const line = errorOutput.trim().split('\n').at(-1) ?? '';
      return `Commands run only inside bubblewrap, which does not work here: ${line.slice(0, 200)}. Inside a container it needs one that allows user namespaces and mounting /proc.`;
    }
  }

  /**
   * Builds the command line.
   * @param cwd absolute path inside the sandbox
   * @param options.mark a text by which bwrap's processes are found
   */
  buildCommand(
    argv: readonly string[],
    mounts: Mounts,
    { cwd, ...limits }: SandboxLimits & { readonly cwd: string },
    { infoFd, mark }: { readonly infoFd?: number; readonly mark?: string } = {},
  ): string[] {
    const namespaces = ['user', 'pid', 'net', 'ipc', 'uts', 'cgroup-try'].map((one) => `--unshare-${one}`);
    return [
      this.#hasPrlimit ? prlimitArguments(limits) : [],
      ['bwrap', ...namespaces, ...this.#usernsArguments, '--die-with-parent', '--new-session'],
      ['--cap-drop', 'ALL', '--hostname', 'sandbox'],
      infoFd === undefined ? [] : ['--info-fd', String(infoFd)],
      // A variable that is not set: the option changes nothing but the command line.
      mark === undefined ? [] : ['--unsetenv', mark],
      mountArguments(mounts, limits.scratchBytes),
      ['--chdir', cwd, '--', ...argv],
    ].flat();
  }
}

const prlimitArguments = (limits: SandboxLimits): string[] => [
  'prlimit',
  '--core=0',
  '--nofile=1024',
  `--data=${limits.processBytes}`,
  `--fsize=${limits.fileBytes}`,
  // The kernel does not apply this to root; a control group (process-cgroup.ts) and a monitor (monitor-limits.ts) do.
  `--nproc=${limits.processes * 8}`,
];
