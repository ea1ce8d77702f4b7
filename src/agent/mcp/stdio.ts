import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js';
import { raceTimeout } from '../../util/race-timeout.ts';
import { oneLine } from './clean-text.ts';
import type { McpTransport } from './config.ts';
import { longestMessage, tooLong, WireError } from './wire.ts';

/** Bytes of invalid output between two messages. Some servers print a greeting. */
const mostGarbage = 65_536;
/** Bytes that may be buffered for a server that does not read. */
const mostUnread = 4 * longestMessage;
const stderrKept = 2048;
const graceMs = 500;

/**
 * Transport to a server that runs as a child process. Unlike the SDK's transport it ends the whole process group (`npx`
 * and shells start further processes), and limits the server's output.
 */
export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #server: Extract<McpTransport, { kind: 'stdio' }>;
  #child: ChildProcessByStdio<Writable, Readable, Readable> | undefined;
  #ended: Promise<void> = Promise.resolve();
  /** Chunks of the incomplete line. */
  #line: Buffer[] = [];
  #lineBytes = 0;
  #garbage = 0;
  #stderr = '';
  #gone: Error | undefined;

  constructor(server: Extract<McpTransport, { kind: 'stdio' }>) {
    this.#server = server;
  }

  async start(): Promise<void> {
    const { program, args, inherited, env, cwd } = this.#server;
    const child = spawn(program, args, {
      env: { ...inherited, ...env },
      cwd,
      stdio: ['pipe', 'pipe', 'pipe'],
      // Its own process group, so that `kill` ends all of it.
      detached: process.platform !== 'win32',
      windowsHide: true,
    });
    this.#child = child;
    child.stdin.on('error', (error) => this.onerror?.(error));
    child.stdout.on('data', (chunk: Buffer) => this.#read(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString('latin1')).slice(-stderrKept);
    });
    this.#ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        // Remaining processes of the group must not hold the pipes open. From now on the pid may be reused.
        this.kill();
        this.#child = undefined;
        void this.#drained(child).then(() => {
          this.#fail(new WireError(`it ended (${signal ?? `exit code ${code}`})${this.#lastWords()}`));
          resolve();
          this.onclose?.();
        });
      });
    });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(new WireError(startProblem(program, cwd, error))));
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin;
    if (this.#gone || !stdin?.writable) return Promise.reject(this.#gone ?? new WireError('it does not run'));
    if (stdin.writableLength > mostUnread) this.#giveUp(new WireError('it does not read what it is sent'));
    stdin.write(`${JSON.stringify(message)}\n`);
    return Promise.resolve();
  }

  /** Closes its input, then sends SIGTERM, then SIGKILL. */
  async close(): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) return;
    child.stdin.end();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await within(graceMs, this.#ended)) return;
      this.kill(signal);
    }
    await within(graceMs, this.#ended);
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
  #drained(child: ChildProcess): Promise<unknown> {
    return within(graceMs, new Promise((resolve) => child.once('close', resolve)));
  }

  #read(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(10); end !== -1 && !this.#gone; end = rest.indexOf(10)) {
      this.#line.push(rest.subarray(0, end));
      const line = Buffer.concat(this.#line);
      this.#line = [];
      this.#lineBytes = 0;
      rest = rest.subarray(end + 1);
      this.#take(line);
    }
    if (this.#gone || rest.length === 0) return;
    this.#line.push(rest);
    this.#lineBytes += rest.length;
    if (this.#lineBytes > longestMessage) this.#giveUp(tooLong());
  }

  #take(line: Buffer): void {
    if (line.length > longestMessage) {
      this.#giveUp(tooLong());
      return;
    }
    let message: JSONRPCMessage;
    try {
      message = JSONRPCMessageSchema.parse(JSON.parse(line.toString('utf8')));
    } catch {
      this.#garbage += line.length + 1;
      if (this.#garbage > mostGarbage)
        this.#giveUp(new WireError('it prints text that is not a protocol message to its standard output'));
      return;
    }
    this.#garbage = 0;
    this.onmessage?.(message);
  }

  #giveUp(why: WireError): void {
    this.#fail(why);
    this.#child?.stdout.destroy();
    this.kill();
  }

  /** Only the first error counts. */
  #fail(error: Error): void {
    if (this.#gone) return;
    this.#gone = error;
    this.onerror?.(error);
  }

  #lastWords(): string {
    const last = Buffer.from(this.#stderr, 'latin1').toString('utf8').trimEnd().split('\n').at(-1) ?? '';
    return last === '' ? '' : `: ${oneLine(last, 200)}`;
  }
}

/** Whether the promise settled in time. */
const within = async (ms: number, work: Promise<unknown>): Promise<boolean> =>
  (await raceTimeout(work, ms)) !== 'late';

function startProblem(program: string, cwd: string | undefined, error: NodeJS.ErrnoException): string {
  // Node reports ENOENT for the program even when the folder is missing.
  if (error.code === 'ENOENT')
    return `there is no program ${program}${cwd === undefined ? '' : `, or no folder ${cwd}`}`;
  if (error.code === 'EACCES') return `${program} may not be run; check its mode`;
  return `${program} cannot be started (${error.code ?? error.message})`;
}
