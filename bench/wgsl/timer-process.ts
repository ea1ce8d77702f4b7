import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { FromTimer, TimingJob, TimingResult, ToTimer } from './protocol.ts';

type Opened = Extract<FromTimer, { type: 'opened' }>;

const program = fileURLToPath(new URL('timer.ts', import.meta.url));
/** Opening a device and measuring its peaks. */
const openTimeoutMs = 120_000;

/** Times kernels in a process, which is started again after one that hung or crashed. */
export class TimerProcess {
  readonly #adapter: string | undefined;
  readonly #timeoutMs: number;
  #child: ChildProcess | undefined;
  #opened: Opened | undefined;

  /** @param timeoutMs for one job */
  constructor({ adapter, timeoutMs }: { adapter?: string | undefined; timeoutMs: number }) {
    this.#adapter = adapter;
    this.#timeoutMs = timeoutMs;
  }

  /** The adapter with its peak rates. @throws Error when no device can be opened */
  async open(): Promise<Opened> {
    if (this.#child && this.#opened) return this.#opened;
    this.#child = fork(program, [], {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const adapter = this.#adapter;
    const reply = await this.#ask(
      { type: 'open', ...(adapter === undefined ? {} : { adapter }) },
      openTimeoutMs,
    );
    if (reply.type !== 'opened')
      throw new Error(reply.type === 'failed' ? reply.message : 'unexpected reply');
    this.#opened ??= reply;
    return this.#opened;
  }

  /** @throws Error when a kernel cannot run, hangs, or ends the process */
  async time(job: TimingJob): Promise<TimingResult> {
    await this.open();
    const reply = await this.#ask({ type: 'time', ...job }, this.#timeoutMs);
    if (reply.type !== 'timed') throw new Error(reply.type === 'failed' ? reply.message : 'unexpected reply');
    return reply;
  }

  close(): void {
    this.#child?.kill('SIGKILL');
    this.#child = undefined;
  }

  async #ask(message: ToTimer, timeoutMs: number): Promise<FromTimer> {
    const child = this.#child;
    if (!child) throw new Error('no process');
    const { promise, resolve, reject } = Promise.withResolvers<FromTimer>();
    const onExit = () => reject(new Error('the process that times kernels ended'));
    const timeout = setTimeout(
      () => reject(new Error(`no result within ${Math.round(timeoutMs / 1000)} s`)),
      timeoutMs,
    );
    child.once('message', resolve);
    child.once('exit', onExit);
    child.once('error', reject);
    child.send(message);
    try {
      return await promise;
    } catch (error) {
      this.close();
      throw error;
    } finally {
      clearTimeout(timeout);
      child.off('message', resolve);
      child.off('exit', onExit);
      child.off('error', reject);
    }
  }
}
