import { spawn } from 'node:child_process';
import os from 'node:os';
import type { Readable } from 'node:stream';
import { type Bubblewrap, environment, type SandboxLimits } from './bubblewrap.ts';
import type { Mounts } from './mounts.ts';
import { Printed } from './printed.ts';
import { watch } from './watch.ts';

export interface Finished {
  /** Exit code; undefined when the command was ended by the host. */
  readonly code: number | undefined;
  /** Why the host ended the command. */
  readonly ended: string | undefined;
  readonly printed: string;
  readonly truncated: boolean;
}

export interface Command {
  readonly argv: readonly string[];
  readonly mounts: Mounts;
  readonly cwd: string;
  readonly timeoutMs: number;
}

const keptBytes = 16 * 1024;
const infoFd = 3;

/** Runs a command in the sandbox, and leaves no process behind. Stdout and stderr are merged in order. */
export async function runSandboxed(
  bubblewrap: Bubblewrap,
  { argv, mounts, cwd, timeoutMs }: Command,
  limits: SandboxLimits,
  signal: AbortSignal,
): Promise<Finished> {
  signal.throwIfAborted();
  const group = bubblewrap.group(limits);
  const line = bubblewrap.command(argv, mounts, { ...limits, cwd }, infoFd);
  const [program = '', ...args] = [...(group?.prefix ?? []), ...line];
  const child = spawn(program, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
  const printed = new Printed(keptBytes);
  let ended: string | undefined;
  let inside: number | undefined;
  let stopWatch = () => {};
  const end = (why: string) => {
    ended ??= why;
    // Killing the first process of the namespace ends all others. Its pid is valid while bwrap runs.
    if (inside !== undefined && child.exitCode === null && child.signalCode === null) kill(inside);
    child.kill('SIGKILL');
  };
  const streams = [child.stdout, child.stderr] as Readable[];
  for (const stream of streams) {
    stream.on('data', (bytes: Buffer) => {
      printed.add(bytes);
      if (printed.bytes > limits.printedBytes) end(`it printed more than ${limits.printedBytes} bytes`);
    });
    stream.on('error', () => undefined);
  }
  let info = '';
  const told = child.stdio[infoFd] as Readable;
  told.on('error', () => undefined);
  told.on('data', (bytes: Buffer) => {
    info += bytes.toString('latin1');
    const id = /"child-pid":\s*(\d+)/.exec(info)?.[1];
    if (id === undefined || inside !== undefined) return;
    inside = Number(id);
    stopWatch = watch(inside, limits, end);
  });
  const timer = setTimeout(() => end(`it did not end within ${timeoutMs / 1000} seconds`), timeoutMs);
  const abort = () => end('the host stopped it');
  signal.addEventListener('abort', abort, { once: true });
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('spawn', () => yieldTo(child.pid));
      child.on('exit', resolve);
    });
    // All processes have ended with the namespace, so the pipes will close.
    await Promise.all(streams.map(drained));
    signal.throwIfAborted();
    return {
      code: ended === undefined && code !== null ? code : undefined,
      ended: ended ?? (code === null ? 'it was killed' : undefined),
      printed: printed.text(),
      truncated: printed.truncated,
    };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    stopWatch();
    for (const stream of [...streams, told]) stream.destroy();
    await group?.remove();
  }
}

/** Lowers the priority of the sandbox below that of the host. */
function yieldTo(pid: number | undefined): void {
  try {
    if (pid !== undefined) os.setPriority(pid, 10);
  } catch {
    // The process has already ended.
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

const drained = (stream: Readable): Promise<void> =>
  new Promise((resolve) => {
    if (stream.readableEnded || stream.destroyed) resolve();
    else stream.once('close', resolve).once('end', resolve);
  });
