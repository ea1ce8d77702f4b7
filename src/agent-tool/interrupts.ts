import { LatheError } from '../client/index.ts';
import { interruptedExitCode, sameSignalMs } from '../terminal/stop-signals.ts';
import type { Context } from './context.ts';
import { stopTask } from './decide.ts';

/** Ctrl-C while a task runs: stops its call, then the task, then this program. */
export class Interrupts {
  readonly #context: Context;
  #task: string | undefined;
  #count = 0;
  #last = Number.NEGATIVE_INFINITY;
  /** Whether a tool call runs. */
  hasCall = false;

  constructor(context: Context) {
    this.#context = context;
    const { signals, exit } = context.environment;
    signals.on('SIGINT', () => {
      const now = performance.now();
      if (now - this.#last < sameSignalMs) return;
      this.#last = now;
      if (this.#task === undefined || this.#count > 1) exit(interruptedExitCode);
      else void this.#stop(this.#task);
    });
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) signals.on(signal, () => exit(interruptedExitCode));
  }

  begin(task: string): void {
    this.#task = task;
    this.#count = 0;
    this.hasCall = false;
  }

  end(): void {
    this.#task = undefined;
  }

  async #stop(task: string): Promise<void> {
    const { lathe, write } = this.#context;
    this.#count = this.hasCall ? this.#count + 1 : 2;
    const isCallOnly = this.#count === 1;
    write(isCallOnly ? '\nStopping the call; Ctrl-C again stops the task.\n' : '\nStopping the task.\n');
    try {
      await (isCallOnly ? lathe.tasks.stopCall(task) : stopTask(task, this.#context));
    } catch (error) {
      // It had ended meanwhile.
      if (!(error instanceof LatheError && error.status === 409)) write(`${String(error)}\n`);
    }
  }
}
