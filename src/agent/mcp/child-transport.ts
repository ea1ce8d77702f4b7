import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js';
import { withoutInherited } from '../tools/sandbox/inherited-descriptors.ts';
import { StartedProcesses } from '../started-processes.ts';
import { raceTimeout } from '../../util/race-timeout.ts';
import { cleanLine } from './clean-text.ts';
import type { McpTransport } from './config.ts';
import { maxMessageBytes, messageTooLongError, McpTransportError } from './transport-limits.ts';

/** Bytes of invalid output between two messages. Some servers print a greeting. */
const maxInvalidBytes = 65_536;
/** Bytes that may be buffered for a server that does not read. */
const maxUnreadBytes = 4 * maxMessageBytes;
const maxStderrLength = 2048;
const shutdownTimeoutMs = 500;

/**
 * Transport to a server that runs as a child process. Unlike the SDK's transport it ends the whole process group (`npx`
 * and shells start further processes), and limits the server's output.
 */
export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #server: Extract<McpTransport, { kind: 'stdio' }>;
  readonly #processes: StartedProcesses;
  #child: ChildProcessByStdio<Writable, Readable, Readable> | undefined;
  #exited: Promise<void> = Promise.resolve();
  /** Chunks of the incomplete line. */
  #lineChunks: Buffer[] = [];
  #lineBytes = 0;
  #invalidBytes = 0;
  #stderr = '';
  #failure: Error | undefined;

  constructor(server: Extract<McpTransport, { kind: 'stdio' }>, processes = new StartedProcesses(undefined)) {
    this.#server = server;
    this.#processes = processes;
  }

  async start(): Promise<void> {
    const { program, args, inherited, env, cwd } = this.#server;
    const child = withoutInherited(['pipe', 'pipe', 'pipe'], (stdio) =>
      spawn(program, args, {
        env: { ...inherited, ...env },
        cwd,
        stdio,
        // Its own process group, so that `kill` ends all of it.
        detached: process.platform !== 'win32',
        windowsHide: true,
      }),
    ) as ChildProcessByStdio<Writable, Readable, Readable>;
    this.#child = child;
    const forget = this.#processes.add(child.pid, { isGroup: true });
    child.stdin.on('error', (error) => this.onerror?.(error));
    child.stdout.on('data', (chunk: Buffer) => this.#readChunk(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString('latin1')).slice(-maxStderrLength);
    });
    this.#exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        // Remaining processes of the group must not hold the pipes open. From now on the pid may be reused.
        this.kill();
        forget();
        this.#child = undefined;
        void this.#waitForOutput(child).then(() => {
          this.#setFailure(
            new McpTransportError(`it ended (${signal ?? `exit code ${code}`})${this.#lastStderrLine()}`),
          );
          resolve();
          this.onclose?.();
        });
      });
    });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(new McpTransportError(describeStartError(program, cwd, error))));
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin;
    if (this.#failure || !stdin?.writable)
      return Promise.reject(this.#failure ?? new McpTransportError('it does not run'));
    if (stdin.writableLength > maxUnreadBytes)
      this.#abandon(new McpTransportError('it does not read what it is sent'));
    stdin.write(`${JSON.stringify(message)}\n`);
    return Promise.resolve();
  }

  /** Closes its input, then sends SIGTERM, then SIGKILL. */
  async close(): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) return;
    child.stdin.end();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await settlesWithin(shutdownTimeoutMs, this.#exited)) return;
      this.kill(signal);
    }
    await settlesWithin(shutdownTimeoutMs, this.#exited);
  }

  /** Signals the whole process group at once. */
  kill(signal: 'SIGTERM' | 'SIGKILL' = 'SIGKILL'): void {
    const child = this.#child;
    if (child?.pid === undefined) return;
    try {
      if (process.platform === 'win32') child.kill(signal);
      else process.kill(-child.pid, signal);
    } catch {
      // The group has no process left.
    }
  }

  /** Waits until the output is read, unless a process outside of the group holds the pipes open. */
  #waitForOutput(child: ChildProcess): Promise<unknown> {
    return settlesWithin(shutdownTimeoutMs, new Promise((resolve) => child.once('close', resolve)));
  }

  #readChunk(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(10); end !== -1 && !this.#failure; end = rest.indexOf(10)) {
      this.#lineChunks.push(rest.subarray(0, end));
      const line = Buffer.concat(this.#lineChunks);
      this.#lineChunks = [];
      this.#lineBytes = 0;
      rest = rest.subarray(end + 1);
      this.#handleLine(line);
    }
    if (this.#failure || rest.length === 0) return;
    this.#lineChunks.push(rest);
    this.#lineBytes += rest.length;
    if (this.#lineBytes > maxMessageBytes) this.#abandon(messageTooLongError());
  }

  #handleLine(line: Buffer): void {
    if (line.length > maxMessageBytes) {
      this.#abandon(messageTooLongError());
      return;
    }
    let message: JSONRPCMessage;
    try {
      message = JSONRPCMessageSchema.parse(JSON.parse(line.toString('utf8')));
    } catch {
      this.#invalidBytes += line.length + 1;
      if (this.#invalidBytes > maxInvalidBytes)
        this.#abandon(
          new McpTransportError('it prints text that is not a protocol message to its standard output'),
        );
      return;
    }
    this.#invalidBytes = 0;
    this.onmessage?.(message);
  }

  #abandon(error: McpTransportError): void {
    this.#setFailure(error);
    this.#child?.stdout.destroy();
    this.kill();
  }

  /** Only the first error counts. */
  #setFailure(error: Error): void {
    if (this.#failure) return;
    this.#failure = error;
    this.onerror?.(error);
  }

  #lastStderrLine(): string {
    const last = Buffer.from(this.#stderr, 'latin1').toString('utf8').trimEnd().split('\n').at(-1) ?? '';
    return last === '' ? '' : `: ${cleanLine(last, 200)}`;
  }
}

/** Whether the promise settled in time. */
const settlesWithin = async (ms: number, promise: Promise<unknown>): Promise<boolean> =>
  (await raceTimeout(promise, ms)) !== 'late';

function describeStartError(program: string, cwd: string | undefined, error: NodeJS.ErrnoException): string {
  // Node reports ENOENT for the program even when the folder is missing.
  if (error.code === 'ENOENT')
    return `there is no program ${program}${cwd === undefined ? '' : `, or no folder ${cwd}`}`;
  if (error.code === 'EACCES') return `${program} may not be run; check its mode`;
  return `${program} cannot be started (${error.code ?? error.message})`;
}
