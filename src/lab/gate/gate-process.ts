import { raceAbort } from '../../util/race-abort.ts';
import { kernelDigest } from '../digest.ts';
import { LabError } from '../types.ts';
import type { Finding, KernelRegistrationReport, LabProfile, Stage, StageName } from '../types.ts';
import { type ChildOptions, type ChildExit, GateChild } from './child-process.ts';
import type { FromChild, GateJob, ProfileJob } from './protocol.ts';
import { maxLimitFactor, type Phase, PhaseTimer, type TimeLimits, defaultTimeLimits } from './time-limits.ts';
import { safeErrorReason } from '../../words/plain-reason.ts';

export interface GateOptions extends ChildOptions {
  /** Time limits of one registration. The child is killed when it exceeds one. */
  readonly limits?: Partial<TimeLimits> | undefined;
  /** Memory by which the child may grow during a registration, in bytes. Default: 1.5 GiB. */
  readonly maxGrowthBytes?: number | undefined;
}

const defaultMaxGrowthBytes = 1.5 * 2 ** 30;
/** Between two looks at the child's memory. A compiler takes a gigabyte in a second or two. */
const memoryIntervalMs = 200;

/** A registration that exceeds a limit is repeated if the machine has become slower by this factor. */
const slowdownRetryFactor = 1.5;
/** Limit for opening a device and compiling once. A cold driver cache on a busy machine takes seconds. */
const startTimeoutMs = 60_000;
/** Limit for a profile, which ends after a number of turns of loops. */
const profileTimeoutMs = 60_000;

type Outcome =
  | { readonly kind: 'report'; readonly report: KernelRegistrationReport }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'died'; readonly death: ChildExit }
  /** `load` is the factor by which the limit was extended. */
  | { readonly kind: 'memory'; readonly phase: Phase }
  | { readonly kind: 'deadline'; readonly phase: Phase; readonly load: number }
  | { readonly kind: 'aborted' };

/**
 * Runs the gate in a child process with its own device, one registration at a time. A candidate that hangs or crashes
 * ends only the child; the next registration gets a new one.
 */
export class GateProcess {
  readonly #options: GateOptions;
  readonly #closed = new AbortController();
  #child: GateChild | undefined;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Process id of the current child. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Starts a child before the first job. Resolves when it is ready; rejects when the gate cannot run on this machine.
   */
  async warmUp(): Promise<void> {
    await this.#getOrStartChild().ready;
  }

  /**
   * Queues a job and runs it. Failures of the candidate are findings of the report.
   * @throws LabError `lab_failed` when no child works, `lab_busy` when the machine is too slow at the moment to
   * distinguish a slow kernel from one that never ends; the abort reason of the signal
   */
  async register(job: GateJob, signal?: AbortSignal): Promise<KernelRegistrationReport> {
    return await this.#enqueue((abortSignal) => this.#run(job, abortSignal), signal);
  }

  /**
   * Queues a profile and makes it.
   * @throws LabError `not_profiled`, `lab_failed`; the abort reason of the signal
   */
  async profile(job: ProfileJob, signal?: AbortSignal): Promise<LabProfile> {
    return await this.#enqueue((abortSignal) => this.#profile(job, abortSignal), signal);
  }

  async #enqueue<T>(work: (abortSignal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    // A separate signal for each job, so that its listeners are released with the job.
    const abortSignal = AbortSignal.any([this.#closed.signal, ...(signal ? [signal] : [])]);
    abortSignal.throwIfAborted();
    const result = this.#tail.then(async () => {
      abortSignal.throwIfAborted();
      return await work(abortSignal);
    });
    this.#tail = result.catch(() => {});
    // An abort rejects a queued job at once, not when its turn comes.
    return await raceAbort(result, abortSignal);
  }

  /** Kills the child and rejects running and queued jobs. */
  async close(): Promise<void> {
    this.#closed.abort(new LabError('lab_failed', 'the lab is closed'));
    const child = this.#child;
    if (!child) return;
    const release = child.retain();
    child.kill();
    await child.exited;
    release();
  }

  #getOrStartChild(): GateChild {
    this.#closed.signal.throwIfAborted();
    if (this.#child) return this.#child;
    const child = new GateChild(this.#options);
    this.#child = child;
    void child.exited.then(() => {
      if (this.#child === child) this.#child = undefined;
    });
    return child;
  }

  async #run(job: GateJob, abortSignal: AbortSignal): Promise<KernelRegistrationReport> {
    const start = performance.now();
    for (let attempt = 1; ; attempt++) {
      const { outcome, report } = await this.#attempt(job, abortSignal);
      if (outcome.kind !== 'deadline') return { ...report, elapsed_ms: performance.now() - start };
      if (outcome.phase === 'gate') {
        throw new LabError('lab_failed', 'the gate did not finish in time; try again');
      }
      // The kernel that hung was killed, so this measures the load of the machine without it.
      const load = await this.#measureLoad(abortSignal);
      if (Math.max(load, outcome.load) > maxLimitFactor) throw machineBusyError(Math.max(load, outcome.load));
      if (attempt > 1 || load < slowdownRetryFactor * outcome.load) {
        return { ...report, elapsed_ms: performance.now() - start };
      }
    }
  }

  /** Runs a job once. A timeout or a crash becomes a finding of the report. */
  async #attempt(
    job: GateJob,
    abortSignal: AbortSignal,
  ): Promise<{ outcome: Outcome; report: KernelRegistrationReport }> {
    const child = this.#getOrStartChild();
    const release = child.retain();
    try {
      await this.#waitUntilReady(child, abortSignal);
      const stages: Stage[] = [];
      let reached: StageName = 'parse';
      const outcome = await this.#outcome(child, job, abortSignal, (message) => {
        if (message.type === 'begin') reached = message.stage;
        else if (message.type === 'end') stages.push(message.stage);
      });
      if (outcome.kind === 'report') return { outcome, report: outcome.report };
      if (outcome.kind === 'failed') throw new LabError('lab_failed', `the gate failed: ${outcome.message}`);
      if (outcome.kind === 'aborted') throw abortSignal.reason;
      const finding =
        outcome.kind === 'died'
          ? childExitFinding(outcome.death)
          : outcome.kind === 'memory'
            ? memoryFinding(outcome.phase, this.#maxGrowthBytes)
            : this.#deadlineFinding(outcome);
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
      release();
    }
  }

  async #profile(job: ProfileJob, abortSignal: AbortSignal): Promise<LabProfile> {
    const child = this.#getOrStartChild();
    const release = child.retain();
    try {
      await this.#waitUntilReady(child, abortSignal);
      const { promise, resolve, reject } = Promise.withResolvers<LabProfile>();
      const timer = setTimeout(
        () => reject(new LabError('lab_failed', 'the profile took too long')),
        profileTimeoutMs,
      );
      void child.exited.then(({ cause }) =>
        reject(new LabError('lab_failed', `the process that profiles kernels ended (${cause})`)),
      );
      child.send({ type: 'profile', job }, (message) => {
        if (message.type === 'profiled') resolve(message.profile);
        else if (message.type === 'not_profiled') reject(new LabError('not_profiled', message.message));
        else if (message.type === 'failed')
          reject(new LabError('lab_failed', `the profile failed: ${message.message}`));
      });
      try {
        return await raceAbort(promise, abortSignal);
      } catch (error) {
        // It may still be computing.
        if (!(error instanceof LabError) || error.code !== 'not_profiled') this.#discard(child);
        throw error;
      } finally {
        clearTimeout(timer);
      }
    } finally {
      release();
    }
  }

  /** Measures the load in an idle child. */
  async #measureLoad(abortSignal: AbortSignal): Promise<number> {
    const child = this.#getOrStartChild();
    const release = child.retain();
    try {
      return await this.#waitUntilReady(child, abortSignal);
    } finally {
      release();
    }
  }

  /** Resolves with the load of the machine when the child became ready. */
  async #waitUntilReady(child: GateChild, abortSignal: AbortSignal): Promise<number> {
    const timeout = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      timeout.reject(new Error(`no GPU device after ${startTimeoutMs / 1000} s`));
    }, startTimeoutMs);
    try {
      return await raceAbort(Promise.race([child.ready, timeout.promise]), abortSignal);
    } catch (error) {
      if (abortSignal.aborted) throw abortSignal.reason;
      this.#discard(child);
      const why = safeErrorReason(error);
      throw new LabError('lab_failed', `kernels cannot be checked on this machine: ${why}`);
    } finally {
      clearTimeout(timer);
    }
  }

  async #outcome(
    child: GateChild,
    job: GateJob,
    abortSignal: AbortSignal,
    onProgress: (message: FromChild) => void,
  ): Promise<Outcome> {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const timer = new PhaseTimer(this.#limits, (phase, load) => resolve({ kind: 'deadline', phase, load }));
    const startBytes = child.residentBytes ?? 0;
    let phase: Phase = 'gate';
    const memoryTimer = setInterval(() => {
      if ((child.residentBytes ?? 0) - startBytes > this.#maxGrowthBytes) resolve({ kind: 'memory', phase });
    }, memoryIntervalMs);
    const onAbort = () => resolve({ kind: 'aborted' });
    abortSignal.addEventListener('abort', onAbort);
    void child.exited.then((death) => resolve({ kind: 'died', death }));
    child.send({ type: 'register', job }, (message) => {
      if (message.type === 'report') resolve({ kind: 'report', report: message.report });
      else if (message.type === 'failed') resolve({ kind: 'failed', message: message.message });
      else if (message.type === 'phase') {
        phase = message.phase;
        timer.enter(message.phase, message.load);
      } else onProgress(message);
    });
    const outcome = await promise;
    timer.stop();
    clearInterval(memoryTimer);
    abortSignal.removeEventListener('abort', onAbort);
    if (outcome.kind !== 'report') {
      this.#discard(child);
      // Start the next child now, so that the next candidate does not wait for a device.
      if (!this.#closed.signal.aborted) this.#getOrStartChild();
    }
    return outcome;
  }

  get #maxGrowthBytes(): number {
    return this.#options.maxGrowthBytes ?? defaultMaxGrowthBytes;
  }

  get #limits(): TimeLimits {
    return { ...defaultTimeLimits, ...this.#options.limits };
  }

  #deadlineFinding({ phase, load }: Extract<Outcome, { kind: 'deadline' }>): Finding {
    const limit = this.#limits[phase] / 1000;
    const extension =
      load > 1 ? ` (extended ${load.toFixed(1)} times because the machine is slow or busy)` : '';
    const message =
      phase === 'compile'
        ? `compiling the kernel did not finish within ${limit} s${extension}, and its process was killed. ` +
          'Reduce the source: fewer unrolled statements, fewer calls, fewer tunable combinations'
        : `the kernel ran for more than ${limit} s${extension}, and its process was killed. ` +
          'Check for a loop that never ends (a counter that does not change, a bound that is never reached), ' +
          'for too many workgroups, and for too much work in one invocation';
    return { code: 'deadline', severity: 'error', message };
  }

  #discard(child: GateChild): void {
    child.kill();
    if (this.#child === child) this.#child = undefined;
  }
}

const machineBusyError = (load: number): LabError =>
  new LabError(
    'lab_busy',
    `the machine is too busy to judge the kernel: the calibration kernel takes ${Math.round(load)} times as long ` +
      'as usual. Try again when the machine is less busy',
  );

const memoryFinding = (phase: Phase, maxBytes: number): Finding => ({
  code: 'memory_limit',
  severity: 'error',
  message:
    `${phase === 'compile' ? 'compiling' : 'checking'} the kernel took more than ${(maxBytes / 2 ** 30).toFixed(1)} GiB of memory, and its ` +
    'process was killed. Reduce the source: functions that call each other many times are copied for every call',
});

const childExitFinding = ({ cause, lastOutput }: ChildExit): Finding => ({
  code: 'child_died',
  severity: 'error',
  message:
    `the process that ran the kernel ended (${cause}): the driver crashed, the device was lost, or memory ran out. ` +
    `Reduce the kernel until it runs${lastOutput === '' ? '' : `. Last output: ${lastOutput}`}`,
});
