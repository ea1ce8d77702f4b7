import { type ChildProcess, fork } from 'node:child_process';
import { Socket } from 'node:net';
import type { FromChild, ToChild } from './protocol.ts';
import { plainReason } from '../../words/plain-reason.ts';

/** How a child ended. */
export interface Death {
  /** A signal's name, or `exit code N`. */
  readonly cause: string;
  /** What it said last: of its own, then of its stderr. */
  readonly lastWords: string;
}

export interface ChildOptions {
  /** Entry file: `lab-child.ts`, or `lab-child.js` beside the host's bundle. */
  readonly childPath: string;
  /** A part of the adapter's name; the machine's best when absent. */
  readonly adapter?: string | undefined;
}

/** Of stderr. */
const keptCharacters = 2000;

/** One process that runs candidates. It never outlives this one, and never keeps it alive while it is idle. */
export class GateChild {
  /** Resolves when the child can take a job, with how slow the machine is; rejects when it never will. */
  readonly ready: Promise<number>;
  readonly died: Promise<Death>;
  readonly #process: ChildProcess;
  #listener: ((message: FromChild) => void) | undefined;
  #stderr = '';
  #lost = '';
  #holds = 0;

  constructor({ childPath, adapter }: ChildOptions) {
    const child = fork(childPath, adapter === undefined ? [] : [adapter], {
      serialization: 'advanced',
      // Flags of the host (an inspector's port, a test runner's loader) are not the child's.
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#process = child;
    // Dawn warns about limits at every start: of use only when the child dies.
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-keptCharacters);
    });
    const onHostExit = () => child.kill('SIGKILL');
    process.once('exit', onHostExit);
    this.died = new Promise((resolve) => {
      const end = (cause: string) => {
        process.off('exit', onHostExit);
        resolve({ cause, lastWords: [this.#lost, this.#stderr.trim()].filter(Boolean).join('\n') });
      };
      child.once('error', (error) => end(plainReason(error)));
      // Not `exit`: what it wrote last may still be on its way.
      child.once('close', (code, signal) => end(signal ?? `exit code ${code}`));
    });
    this.ready = new Promise((resolve, reject) => {
      child.on('message', (message: FromChild) => {
        if (message.type === 'ready') resolve(message.load);
        else if (message.type === 'unusable') reject(new Error(message.message));
        else if (message.type === 'lost') this.#lost = message.message;
        else this.#listener?.(message);
      });
      void this.died.then(({ cause, lastWords }) =>
        reject(new Error(`the lab's child process ended while it started (${cause}). ${lastWords}`.trim())),
      );
    });
    const letGo = this.hold();
    // Whoever waits for it hears of an error.
    this.ready.then(letGo, letGo);
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** The event loop of this process waits for the child until what is returned is called. */
  hold(): () => void {
    this.#holds += 1;
    this.#wait('ref');
    return () => {
      this.#holds -= 1;
      if (this.#holds === 0) this.#wait('unref');
    };
  }

  #wait(verb: 'ref' | 'unref'): void {
    const { stderr, channel } = this.#process;
    this.#process[verb]();
    channel?.[verb]();
    // A pipe is a socket.
    if (stderr instanceof Socket) stderr[verb]();
  }

  /** @param listener hears every message from now on */
  send(message: ToChild, listener: (message: FromChild) => void): void {
    this.#listener = listener;
    // A dead child is heard of through `died`.
    this.#process.send(message, () => {});
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }
}
