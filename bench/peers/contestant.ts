import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { GenerationTimes } from '../generation.ts';
import type { Order, Reply, Setting } from './protocol.ts';

/** Handle of a contestant's process. */
export class Contestant {
  readonly name: string;
  readonly adapter: string;
  readonly software: boolean;
  /** Last reported processor time of the process. */
  cpuMs = 0;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, facts: { name: string; adapter: string; software: boolean }) {
    this.#child = child;
    this.name = facts.name;
    this.adapter = facts.adapter;
    this.software = facts.software;
  }

  static async start(
    script: URL,
    setting: Setting,
    env: Readonly<Record<string, string>>,
  ): Promise<Contestant> {
    const child = fork(script, [JSON.stringify(setting)], {
      env: { ...process.env, ...env },
      // Output of libraries goes to stderr, because stdout is for figures.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    const reply = await nextReply(child).catch((error: unknown) => {
      // It would wait for orders.
      child.kill('SIGKILL');
      throw error;
    });
    if (reply.type !== 'ready') throw new Error(`${fileURLToPath(script)} spoke before it was ready`);
    return new Contestant(child, reply);
  }

  async generate(order: Order): Promise<GenerationTimes> {
    const reply = nextReply(this.#child);
    this.#child.send(order);
    const times = await reply;
    if (times.type !== 'times') throw new Error(`${this.name} answered ${times.type}`);
    this.cpuMs = times.cpuMs;
    return times;
  }

  async end(): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return;
    const exited = new Promise((resolve) => this.#child.once('exit', resolve));
    // The process has no state to save, and a busy device would delay a graceful exit.
    this.#child.kill('SIGKILL');
    await exited;
  }
}

function nextReply(child: ChildProcess): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const removeListeners = () => {
      child.off('message', onMessage).off('exit', onExit).off('error', onError);
    };
    const onMessage = (message: unknown) => {
      removeListeners();
      const reply = message as Reply;
      if (reply.type === 'failed') reject(new Error(reply.message));
      else resolve(reply);
    };
    const onExit = (code: number | null, signal: string | null) => {
      removeListeners();
      reject(new Error(`${child.spawnfile} ended with ${signal ?? code} in the middle of a measurement`));
    };
    const onError = (error: Error) => {
      removeListeners();
      reject(error);
    };
    child.on('message', onMessage).on('exit', onExit).on('error', onError);
  });
}
