import { kernelDigest } from '../digest.ts';
import { LabError } from '../types.ts';
import type { Finding, KernelRegistrationReport, Stage, StageName } from '../types.ts';
import { type ChildOptions, type Death, GateChild } from './child-process.ts';
import type { FromChild, GateJob } from './protocol.ts';
import { plainReason } from '../../words/plain-reason.ts';

export interface GateOptions extends ChildOptions {
  /** Of one registration; the child is killed then. */
  readonly deadlineMs?: number | undefined;
}

const defaultDeadlineMs = 20_000;
/** To open a device and compile once; a cold driver cache on a busy machine takes seconds. */
const startMs = 60_000;

type Outcome =
  | { readonly kind: 'report'; readonly report: KernelRegistrationReport }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'died'; readonly death: Death }
  | { readonly kind: 'deadline' }
  | { readonly kind: 'aborted' };

/**
 * Gates kernels in a child process with a device of its own, one at a time. A candidate that hangs or crashes takes
 * the child with it and nothing else; the next one gets a fresh child.
 */
export class GateProcess {
  readonly #options: GateOptions;
  readonly #closed = new AbortController();
  #child: GateChild | undefined;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Of the child that waits or works, if there is one. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts a child ahead of the first job. Resolves when it is ready; rejects when this machine cannot gate. */
  async warm(): Promise<void> {
    await this.#freshChild().ready;
  }

  /**
   * Runs a job after those before it. A candidate's failures are findings of the report.
   * @throws LabError `lab_failed` when there is no working child; the signal's reason when it is aborted
   */
  async register(job: GateJob, signal?: AbortSignal): Promise<KernelRegistrationReport> {
    // One of its own, so that listeners go with the job.
    const stop = AbortSignal.any([this.#closed.signal, ...(signal ? [signal] : [])]);
    stop.throwIfAborted();
    const mine = this.#tail.then(async () => {
      stop.throwIfAborted();
      return await this.#run(job, stop);
    });
    this.#tail = mine.catch(() => {});
    // A job that still waits is given up at once, though its turn comes later.
    return await Promise.race([mine, rejection(stop)]);
  }

  /** Kills the child; jobs that run or wait are rejected. */
  async close(): Promise<void> {
    this.#closed.abort(new LabError('lab_failed', 'the lab is closed'));
    const child = this.#child;
    if (!child) return;
    const letGo = child.hold();
    child.kill();
    await child.died;
    letGo();
  }

  #freshChild(): GateChild {
    this.#closed.signal.throwIfAborted();
    if (this.#child) return this.#child;
    const child = new GateChild(this.#options);
    this.#child = child;
    void child.died.then(() => {
      if (this.#child === child) this.#child = undefined;
    });
    return child;
  }

  async #run(job: GateJob, stop: AbortSignal): Promise<KernelRegistrationReport> {
    const child = this.#freshChild();
    const letGo = child.hold();
    try {
      await this.#whenReady(child, stop);
      const start = performance.now();
      const stages: Stage[] = [];
      let reached: StageName = 'parse';
      const outcome = await this.#outcome(child, job, stop, (message) => {
        if (message.type === 'begin') reached = message.stage;
        else if (message.type === 'end') stages.push(message.stage);
      });
      const elapsed = performance.now() - start;
      switch (outcome.kind) {
        case 'report':
          return { ...outcome.report, elapsed_ms: elapsed };
        case 'failed':
          throw new LabError('lab_failed', `the gate failed: ${outcome.message}`);
        case 'aborted':
          throw stop.reason;
        case 'deadline':
        case 'died': {
          const finding =
            outcome.kind === 'died'
              ? diedFinding(outcome.death)
              : deadlineFinding(this.#options.deadlineMs ?? defaultDeadlineMs);
          const failed: Stage = { stage: reached, ok: false, findings: [finding] };
          return {
            kernel: job.registration.name,
            digest: kernelDigest(job.registration),
            accepted: false,
            stages: [...stages.filter(({ stage }) => stage !== reached), failed],
            seed: job.seed,
            elapsed_ms: elapsed,
          };
        }
      }
    } finally {
      letGo();
    }
  }

  async #whenReady(child: GateChild, stop: AbortSignal): Promise<void> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      late.reject(new Error(`no device within ${startMs / 1000} s`));
    }, startMs);
    try {
      await Promise.race([child.ready, late.promise, rejection(stop)]);
    } catch (error) {
      if (stop.aborted) throw stop.reason;
      this.#discard(child);
      const why = plainReason(error);
      throw new LabError('lab_failed', `kernels cannot be checked on this machine: ${why}`);
    } finally {
      clearTimeout(timer);
    }
  }

  async #outcome(
    child: GateChild,
    job: GateJob,
    stop: AbortSignal,
    onProgress: (message: FromChild) => void,
  ): Promise<Outcome> {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const timer = setTimeout(
      () => resolve({ kind: 'deadline' }),
      this.#options.deadlineMs ?? defaultDeadlineMs,
    );
    const onAbort = () => resolve({ kind: 'aborted' });
    stop.addEventListener('abort', onAbort);
    void child.died.then((death) => resolve({ kind: 'died', death }));
    child.send({ type: 'register', job }, (message) => {
      if (message.type === 'report') resolve({ kind: 'report', report: message.report });
      else if (message.type === 'failed') resolve({ kind: 'failed', message: message.message });
      else onProgress(message);
    });
    const outcome = await promise;
    clearTimeout(timer);
    stop.removeEventListener('abort', onAbort);
    if (outcome.kind !== 'report') {
      this.#discard(child);
      // The next candidate should not wait for a device.
      if (!this.#closed.signal.aborted) this.#freshChild();
    }
    return outcome;
  }

  #discard(child: GateChild): void {
    child.kill();
    if (this.#child === child) this.#child = undefined;
  }
}

/** Rejects when the signal is aborted, and never settles otherwise. */
function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    else signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

const deadlineFinding = (deadlineMs: number): Finding => ({
  code: 'deadline',
  severity: 'error',
  message:
    `the kernel was not done within ${deadlineMs / 1000} s, and its process was killed. ` +
    'Look for a loop that never ends (a counter that does not move, a bound that is never reached), ' +
    'for far too many workgroups, or for far too much work in one invocation',
});

const diedFinding = ({ cause, lastWords }: Death): Finding => ({
  code: 'child_died',
  severity: 'error',
  message:
    `the process that ran the kernel ended (${cause}). The driver crashed on it, the device was lost, or memory ran ` +
    `out: make it smaller until it runs${lastWords === '' ? '' : `. It said last: ${lastWords}`}`,
});
