import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { killMarked } from '../../marked-processes.ts';
import type { StartedProcesses } from '../../started-processes.ts';
import type { OnOutput } from '../../tool.ts';
import { withoutInherited } from './inherited-descriptors.ts';
import { type Bubblewrap, sandboxEnvironment, type SandboxLimits } from './bubblewrap.ts';
import type { Mounts } from './mounts.ts';
import { CommandOutput } from './command-output.ts';
import type { SavedOutput } from './saved-outputs.ts';
import { monitorLimits } from './monitor-limits.ts';

export interface CommandResult {
  /** Exit code; undefined when the command was ended by the host. */
  readonly code: number | undefined;
  /** Why the host ended the command. */
  readonly endReason: string | undefined;
  readonly output: string;
  readonly truncated: boolean;
}

export interface SandboxCommand {
  readonly argv: readonly string[];
  readonly mounts: Mounts;
  readonly cwd: string;
  readonly timeoutMs: number;
  /** Where an output goes that is too long to be shown whole. */
  readonly save?: () => SavedOutput | undefined;
  /** Receives the output as it comes. */
  readonly onOutput?: OnOutput;
  readonly processes?: StartedProcesses;
}

/** Twice as much, with the lines around it, fits what a model is shown (`truncateOutput`). */
const outputPartBytes = 15 * 1024;
const infoFd = 3;

/** Runs a command in the sandbox, and leaves no process behind. Stdout and stderr are merged in order. */
export async function runSandboxed(
  bubblewrap: Bubblewrap,
  { argv, mounts, cwd, timeoutMs, save, onOutput, processes }: SandboxCommand,
  limits: SandboxLimits,
  signal: AbortSignal,
): Promise<CommandResult> {
  signal.throwIfAborted();
  const group = bubblewrap.createGroup(limits);
  const mark = `lathe-${randomUUID()}`;
  const commandLine = bubblewrap.buildCommand(argv, mounts, { ...limits, cwd }, { infoFd, mark });
  const [program = '', ...args] = [...(group?.commandPrefix ?? []), ...commandLine];
  // bwrap ends with its parent, and the first process of the namespace with it, but neither before it has asked for that.
  const forgetMark = processes?.addMarked(mark);
  const child = withoutInherited(['ignore', 'pipe', 'pipe', 'pipe'], (stdio) =>
    // In a session and a group of its own, without a terminal.
    spawn(program, args, { env: sandboxEnvironment, stdio, detached: true }),
  );
  const forgetGroup = processes?.add(child.pid, { isGroup: true });
  const output = new CommandOutput(outputPartBytes, save);
  let endReason: string | undefined;
  let sandboxPid: number | undefined;
  let stopMonitor = () => {};
  /**
   * Kills bwrap and the first process of the namespace, whose end ends all others. That process leaves the group while the
   * sandbox is set up; bwrap has no command line for a moment when it is started.
   */
  const killAll = () => {
    if (child.pid !== undefined) killGroup(child.pid);
    killMarked(mark);
  };
  const end = (reason: string) => {
    endReason ??= reason;
    if (child.exitCode === null && child.signalCode === null) killAll();
  };
  const streams = child.stdio.slice(1, 3) as Readable[];
  for (const stream of streams) {
    const decoder = new StringDecoder('utf8');
    stream.on('data', (bytes: Buffer) => {
      output.add(bytes);
      onOutput?.(decoder.write(bytes));
      if (output.bytes > limits.printedBytes) end(`it printed more than ${limits.printedBytes} bytes`);
    });
    stream.on('error', () => undefined);
  }
  let info = '';
  const infoStream = child.stdio[infoFd] as Readable;
  infoStream.on('error', () => undefined);
  infoStream.on('data', (bytes: Buffer) => {
    info += bytes.toString('latin1');
    const id = /"child-pid":\s*(\d+)/.exec(info)?.[1];
    if (id === undefined || sandboxPid !== undefined) return;
    sandboxPid = Number(id);
    stopMonitor = monitorLimits(sandboxPid, limits, end);
  });
  const timer = setTimeout(() => end(`it did not end within ${timeoutMs / 1000} s`), timeoutMs);
  const abort = () => end('the host stopped it');
  signal.addEventListener('abort', abort, { once: true });
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('spawn', () => lowerPriority(child.pid));
      child.on('exit', (exitCode) => {
        // Who else killed bwrap may have left the command behind.
        if (exitCode === null) killAll();
        resolve(exitCode);
      });
    });
    // All processes have ended with the namespace, so the pipes will close.
    await Promise.all(streams.map(waitForClose));
    signal.throwIfAborted();
    return {
      code: endReason === undefined && code !== null ? code : undefined,
      endReason: endReason ?? (code === null ? 'it was killed' : undefined),
      output: await output.text(),
      truncated: output.truncated,
    };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    stopMonitor();
    forgetMark?.();
    forgetGroup?.();
    for (const stream of [...streams, infoStream]) stream.destroy();
    await output.close();
    await group?.remove();
  }
}

/** Lowers the priority of the sandbox below that of the host. */
function lowerPriority(pid: number | undefined): void {
  try {
    if (pid !== undefined) os.setPriority(pid, 10);
  } catch {
    // The process has already ended.
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // All of it has ended.
  }
}

const waitForClose = (stream: Readable): Promise<void> =>
  new Promise((resolve) => {
    if (stream.readableEnded || stream.destroyed) resolve();
    else stream.once('close', resolve).once('end', resolve);
  });
