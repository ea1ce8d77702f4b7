import { unlessAborted } from '../../util/abort.ts';
import { kernelDigest } from '../digest.ts';
import { LabError } from '../types.ts';
import type { Finding, KernelRegistrationReport, Stage, StageName } from '../types.ts';
import { type ChildOptions, type Death, GateChild } from './child-process.ts';
import type { FromChild, GateJob } from './protocol.ts';
import { maxStretch, type Phase, PhaseTimer, type TimeLimits, usualLimits } from './time-limits.ts';
import { plainReason } from '../../words/plain-reason.ts';

export interface GateOptions extends ChildOptions {
  /** Limits of one registration; the child is killed when it exceeds one. */
  readonly limits?: Partial<TimeLimits> | undefined;
}

/** A registration that exceeds a limit is repeated where the machine has become so many times slower meanwhile. */
const becameBusy = 1.5;
/** To open a device and compile once; a cold driver cache on a busy machine takes seconds. */
const startMs = 60_000;

type Outcome =
  | { readonly kind: 'report'; readonly report: KernelRegistrationReport }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'died'; readonly death: Death }
  /** `load` is the one that the limit was stretched by. */
  | { readonly kind: 'deadline'; readonly phase: Phase; readonly load: number }
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
   * @throws LabError `lab_failed` when there is no working child, `lab_busy` when the machine is too slow at the moment
   * to tell a slow kernel from one that never ends; the signal's reason when it is aborted
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
    return await unlessAborted(mine, stop);
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
    const start = performance.now();
    for (let attempt = 1; ; attempt++) {
      const { outcome, report } = await this.#attempt(job, stop);
      if (outcome.kind !== 'deadline') return { ...report, elapsed_ms: performance.now() - start };
      if (outcome.phase === 'gate') {
        throw new LabError('lab_failed', 'the gate itself did not finish; try again');
      }
      // What hung is dead: this is how busy the machine is without it.
      const load = await this.#loadNow(stop);
      if (Math.max(load, outcome.load) > maxStretch) throw tooBusy(Math.max(load, outcome.load));
      if (attempt > 1 || load < becameBusy * outcome.load) {
        return { ...report, elapsed_ms: performance.now() - start };
      }
    }
  }

  /** Runs a job once. The report of one that exceeds a limit or takes its child with it says so. */
  async #attempt(
    job: GateJob,
    stop: AbortSignal,
  ): Promise<{ outcome: Outcome; report: KernelRegistrationReport }> {
    const child = this.#freshChild();
    const letGo = child.hold();
    try {
      await this.#whenReady(child, stop);
      const stages: Stage[] = [];
      let reached: StageName = 'parse';
      const outcome = await this.#outcome(child, job, stop, (message) => {
        if (message.type === 'begin') reached = message.stage;
        else if (message.type === 'end') stages.push(message.stage);
      });
      if (outcome.kind === 'report') return { outcome, report: outcome.report };
      if (outcome.kind === 'failed') throw new LabError('lab_failed', `the gate failed: ${outcome.message}`);
      if (outcome.kind === 'aborted') throw stop.reason;
      const finding = outcome.kind === 'died' ? diedFinding(outcome.death) : this.#deadlineFinding(outcome);
      const failed: Stage = { stage: reached, ok: false, findings: [finding] };
      const report = {
        kernel: job.registration.name,
        digest: kernelDigest(job.registration),
        accepted: false,
        stages: [...stages.filter(({ stage }) => stage !== reached), failed],
        seed: job.seed,
        elapsed_ms: 0,
      };
      return { outcome, report };
    } finally {
      letGo();
    }
  }

  /** Measured by a child that has nothing else to do. */
  async #loadNow(stop: AbortSignal): Promise<number> {
    const child = this.#freshChild();
    const letGo = child.hold();
    try {
      return await this.#whenReady(child, stop);
    } finally {
      letGo();
    }
  }

  /** Resolves with how slow the machine was when the child became ready. */
  async #whenReady(child: GateChild, stop: AbortSignal): Promise<number> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      late.reject(new Error(`no device within ${startMs / 1000} s`));
    }, startMs);
    try {
      return await unlessAborted(Promise.race([child.ready, late.promise]), stop);
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
    const timer = new PhaseTimer(this.#limits, (phase, load) => resolve({ kind: 'deadline', phase, load }));
    const onAbort = () => resolve({ kind: 'aborted' });
    stop.addEventListener('abort', onAbort);
    void child.died.then((death) => resolve({ kind: 'died', death }));
    child.send({ type: 'register', job }, (message) => {
      if (message.type === 'report') resolve({ kind: 'report', report: message.report });
      else if (message.type === 'failed') resolve({ kind: 'failed', message: message.message });
      else if (message.type === 'phase') timer.enter(message.phase, message.load);
      else onProgress(message);
    });
    const outcome = await promise;
    timer.stop();
    stop.removeEventListener('abort', onAbort);
    if (outcome.kind !== 'report') {
      this.#discard(child);
      // The next candidate should not wait for a device.
      if (!this.#closed.signal.aborted) this.#freshChild();
    }
    return outcome;
  }

  get #limits(): TimeLimits {
    return { ...usualLimits, ...this.#options.limits };
  }

  #deadlineFinding({ phase, load }: Extract<Outcome, { kind: 'deadline' }>): Finding {
    const limit = this.#limits[phase] / 1000;
    const stretched =
      load > 1 ? ` (stretched ${load.toFixed(1)} times, because the machine is slow or busy)` : '';
    const message =
      phase === 'compile'
        ? `compiling the kernel did not finish within ${limit} s${stretched}, and its process was killed. ` +
          'Make the source smaller: fewer unrolled statements, fewer calls, fewer combinations of tunables'
        : `the kernel ran for more than ${limit} s${stretched}, and its process was killed. ` +
          'Look for a loop that never ends (a counter that does not move, a bound that is never reached), ' +
          'for far too many workgroups, or for far too much work in one invocation';
    return { code: 'deadline', severity: 'error', message };
  }

  #discard(child: GateChild): void {
    child.kill();
    if (this.#child === child) this.#child = undefined;
  }
}

const tooBusy = (load: number): LabError =>
  new LabError(
    'lab_busy',
    `the machine is too busy to judge the kernel: a kernel that the gate knows takes ${Math.round(load)} times as long ` +
      'as usual. Try again when the machine has less to do',
  );

const diedFinding = ({ cause, lastWords }: Death): Finding => ({
  code: 'child_died',
  severity: 'error',
  message:
    `the process that ran the kernel ended (${cause}). The driver crashed on it, the device was lost, or memory ran ` +
    `out: make it smaller until it runs${lastWords === '' ? '' : `. It said last: ${lastWords}`}`,
});
