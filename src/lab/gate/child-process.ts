import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import type { FromChild, ToChild } from './protocol.ts';
import { safeErrorReason } from '../../words/plain-reason.ts';

/** How a child process ended. */
export interface ChildExit {
  /** Signal name, or `exit code N`. */
  readonly cause: string;
  /** The child's last message, then the end of its stderr. */
  readonly lastOutput: string;
}

export interface ChildOptions {
  /** Entry file: `lab-child.ts`, or `lab-child.js` beside the host's bundle. */
  readonly childPath: string;
  /** Part of the adapter's name. Default: the best adapter. */
  readonly adapter?: string | undefined;
}

/** Bytes of a page on x86-64; elsewhere pages are larger, which makes a limit more generous. */
const pageBytes = 4096;
/** Number of characters of stderr that are kept. */
const maxStderrCharacters = 2000;

/** Child process that runs candidate kernels. It ends with this process, and an idle child does not keep it alive. */
export class GateChild {
  /** Resolves with the load of the machine when the child can take a job; rejects when it cannot start. */
  readonly ready: Promise<number>;
  readonly exited: Promise<ChildExit>;
  readonly #process: ChildProcess;
  #listener: ((message: FromChild) => void) | undefined;
  #stderr = '';
  #lostMessage = '';
  #retainCount = 0;

  constructor({ childPath, adapter }: ChildOptions) {
    const child = fork(childPath, adapter === undefined ? [] : [adapter], {
      serialization: 'advanced',
      // Do not inherit flags of the host, such as an inspector port or the loader of a test runner.
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#process = child;
    // Dawn prints warnings at every start, so stderr is kept and shown only when the child dies.
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-maxStderrCharacters);
    });
    const onHostExit = () => child.kill('SIGKILL');
    process.once('exit', onHostExit);
    this.exited = new Promise((resolve) => {
      const end = (cause: string) => {
        process.off('exit', onHostExit);
        resolve({ cause, lastOutput: [this.#lostMessage, this.#stderr.trim()].filter(Boolean).join('\n') });
      };
      child.once('error', (error) => end(safeErrorReason(error)));
      // Not `exit`: the last output may not have arrived yet.
      child.once('close', (code, signal) => end(signal ?? `exit code ${code}`));
    });
    this.ready = new Promise((resolve, reject) => {
      child.on('message', (message: FromChild) => {
        if (message.type === 'ready') resolve(message.load);
        else if (message.type === 'unusable') reject(new Error(message.message));
        else if (message.type === 'lost') this.#lostMessage = message.message;
        else this.#listener?.(message);
      });
      void this.exited.then(({ cause, lastOutput }) =>
        reject(new Error(`the lab's child process ended while it started (${cause}). ${lastOutput}`.trim())),
      );
    });
    const release = this.retain();
    // The caller that awaits `ready` handles the error.
    this.ready.then(release, release);
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Memory that the child occupies, in bytes; undefined where the system has no `/proc`. It also grows while the child is blocked. */
  get residentBytes(): number | undefined {
    try {
      const [, pages] = readFileSync(`/proc/${this.pid}/statm`, 'utf8').split(' ');
      return Number(pages) * pageBytes;
    } catch {
      return undefined;
    }
  }

  /** Keeps the event loop of this process alive for the child until the returned function is called. */
  retain(): () => void {
    this.#retainCount += 1;
    this.#setReferenced('ref');
    return () => {
      this.#retainCount -= 1;
      if (this.#retainCount === 0) this.#setReferenced('unref');
    };
  }

  #setReferenced(method: 'ref' | 'unref'): void {
    const { stderr, channel } = this.#process;
    this.#process[method]();
    channel?.[method]();
    // At runtime, the pipe is a socket, which has `ref` and `unref`.
    if (stderr instanceof Socket) stderr[method]();
  }

  /** @param listener receives every message from now on */
  send(message: ToChild, listener: (message: FromChild) => void): void {
    this.#listener = listener;
    // A dead child is reported through `exited`.
    this.#process.send(message, () => {});
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }
}
