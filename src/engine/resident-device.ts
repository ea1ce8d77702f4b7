import { errorMessage } from '../util/error-message.ts';
import { sleep } from '../util/sleep.ts';
import { HangWatchdog } from './execution/hang-watchdog.ts';
import type { Runner, StepPlans } from './execution/runner.ts';
import type { Binding, LabKernel } from './graph/bindings.ts';
import { type EngineSource, openRunner } from './loading/open-runner.ts';
import { Embedder } from './scheduling/embedder.ts';
import type { TextTokens } from './scheduling/embedding-jobs.ts';
import { Scheduler } from './scheduling/scheduler.ts';
import { SequenceEmbedder } from './scheduling/sequence-embedder.ts';
import { Sequence } from './scheduling/sequence.ts';
import { type SchedulerCounts, zeroCounts } from './scheduling/scheduler-counts.ts';
import type { Tokenizer } from './tokenizer/types.ts';
import { EngineError, greedySampling } from './types.ts';

/** Time within which a device loss is reported after a step failed because of it. */
const lossReportDelayMs = 200;

/**
 * The device that the model is on, with its runner, scheduler and lab kernels. When the device is lost, hangs or fails, its
 * requests fail, and the model is loaded once onto a new one.
 */
export class ResidentDevice {
  /** Totals over the schedulers of all devices. */
  readonly counts: SchedulerCounts = zeroCounts();
  /** Called when the device was lost while lab kernels were bound; the built-in kernels have taken over. */
  onBindingsLost: ((reason: string) => void) | undefined;
  #runner: Runner;
  #scheduler: Scheduler;
  #embedder: Embedder | SequenceEmbedder;
  #losses = 0;
  readonly #source: EngineSource;
  readonly #tokenizer: Tokenizer;
  /** Tokens of context that were announced. */
  readonly #contextLength: number;
  readonly #watchdog: HangWatchdog;
  #state: 'ready' | 'rebuilding' | 'lost' | 'closed' = 'ready';
  /** A request was answered since the device was opened, so opening another device after a loss is worthwhile. */
  #hasAnswered = true;
  /** True while the work of `exclusive` runs. */
  #exclusive = false;
  /** Number of bindings that are being planned and compiled. */
  #planningCount = 0;
  /** Number of calls of `tryBindings` that run. */
  #trials = 0;
  /** Plans that exclusive work may still use. */
  readonly #retiredPlans: StepPlans[] = [];
  /** Plans that are no longer bound but that submitted steps still use. */
  #outgoingPlans: StepPlans | undefined;

  constructor(source: EngineSource, runner: Runner, tokenizer: Tokenizer) {
    this.#source = source;
    this.#tokenizer = tokenizer;
    this.#watchdog = new HangWatchdog(
      (reason) => void this.#replaceDevice(this.#runner, reason, 'hangs'),
      source.platform.processorMs,
    );
    this.#contextLength = runner.memory.capacity.context;
    this.#runner = runner;
    this.#scheduler = this.#createScheduler(runner);
    this.#embedder = this.#createEmbedder(runner, this.#scheduler);
    this.#watchForLoss(runner);
  }

  get runner(): Runner {
    return this.#runner;
  }

  get scheduler(): Scheduler {
    return this.#scheduler;
  }

  /** Requests that run, and that wait: for text or for embeddings. */
  get load(): { running: number; waiting: number } {
    if (this.#embedder instanceof Embedder) return this.#embedder;
    const { running, waiting } = this.#scheduler;
    return { running, waiting: waiting + this.#embedder.waiting };
  }

  /** See `Embedder.embed`. Only models that make no text have texts of two segments. */
  embed(inputs: readonly TextTokens[], signal?: AbortSignal): Promise<Float32Array[]> {
    return this.#embedder.embed(inputs, signal);
  }

  /** Number of devices that were lost. */
  get losses(): number {
    return this.#losses;
  }

  get closed(): boolean {
    return this.#state === 'closed';
  }

  /** To be called when a request was answered. */
  reportAnswer(): void {
    this.#hasAnswered = true;
  }

  /**
   * Waits until no request runs or waits, and runs `work` with exclusive use of the device; new requests wait
   * meanwhile, unless it lets them run. Rejects with the signal's reason when it aborts before `work` starts, and when
   * the device is lost.
   * @param work gets `letOthersRun`, see `Scheduler`
   */
  async exclusive<T>(
    work: (runner: Runner, letOthersRun: () => Promise<boolean>) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    this.requireReady();
    const runner = this.#runner;
    const scheduler = this.#scheduler;
    return await scheduler.runExclusive(async () => {
      this.#exclusive = true;
      try {
        return await this.#watchdog.race(
          runner,
          work(runner, () => scheduler.letOthersRun()),
        );
      } finally {
        this.#exclusive = false;
        for (const plans of this.#retiredPlans.splice(0)) plans.destroy();
        // The work may have written to any page.
        scheduler.forgetPrefixes();
      }
    }, signal);
  }

  /**
   * Binds lab kernels, from the next step on; nodes without a binding run on the built-in kernels. If any kernel
   * cannot be compiled or bound, nothing changes. Running requests continue.
   * @param unfused kernels for `add`, `rope` and `kv_write`, which exist as built-ins only in fused form
   */
  async bind(bindings: readonly Binding[], unfused: ReadonlyMap<string, LabKernel>): Promise<void> {
    this.requireReady();
    const runner = this.#runner;
    const plans = bindings.length > 0 ? await this.#planBindings(runner, bindings, unfused) : undefined;
    if (runner !== this.#runner) {
      throw new EngineError('device_lost', 'the GPU was lost while the kernels were being bound');
    }
    const previous = runner.boundPlans;
    runner.boundPlans = plans;
    // Keys and values of other kernels, which may be wrong ones that are being unbound.
    this.#scheduler.forgetPrefixes();
    this.#watchForHangs(runner);
    if (!previous) return;
    // Until those steps end, a kernel of the previous plans can still hang.
    this.#outgoingPlans = previous;
    try {
      await this.#watchdog.race(runner, runner.gpu.device.queue.onSubmittedWorkDone());
    } finally {
      this.#outgoingPlans = undefined;
      // A running benchmark or parity run keeps using the plans it started with.
      if (this.#exclusive) this.#retiredPlans.push(previous);
      else previous.destroy();
    }
  }

  /**
   * Plans bindings and runs `work` with them; what is bound stays as it is. A device that is lost meanwhile counts as lost
   * by these kernels. To be called by exclusive work.
   * @throws EngineError `device_lost`, also when a kernel hangs
   */
  async tryBindings<T>(
    bindings: readonly Binding[],
    unfused: ReadonlyMap<string, LabKernel>,
    work: (plans: StepPlans) => Promise<T>,
  ): Promise<T> {
    const runner = this.#runner;
    this.#trials += 1;
    try {
      const plans = await this.#planBindings(runner, bindings, unfused);
      this.#watchForHangs(runner);
      try {
        return await this.#watchdog.race(runner, work(plans));
      } finally {
        // A device that hangs cannot free anything, and one that was lost has.
        if (runner === this.#runner && this.#state === 'ready') plans.destroy();
      }
    } finally {
      this.#trials -= 1;
    }
  }

  async #planBindings(
    runner: Runner,
    bindings: readonly Binding[],
    unfused: ReadonlyMap<string, LabKernel>,
  ): ReturnType<Runner['planBindings']> {
    this.#planningCount += 1;
    // Compiling can hang, too.
    this.#watchForHangs(runner);
    try {
      return await this.#watchdog.race(runner, runner.planBindings(bindings, unfused));
    } finally {
      this.#planningCount -= 1;
    }
  }

  #watchForHangs(runner: Runner): void {
    this.#watchdog.watch(
      runner,
      () =>
        runner.boundPlans !== undefined ||
        this.#outgoingPlans !== undefined ||
        this.#retiredPlans.length > 0 ||
        this.#trials > 0 ||
        this.#planningCount > 0,
    );
  }

  /** Fails all requests, and frees the device if it becomes idle within `timeout`. */
  async close(timeout: Promise<'late'>): Promise<void> {
    this.#state = 'closed';
    this.#watchdog.stop();
    this.#failAll(new EngineError('shutting_down', 'the host is shutting down'));
    const settled = await Promise.race([this.#scheduler.whenIdle(), timeout]);
    // Destroying a device that still computes blocks the thread until it is done, possibly for ever.
    if (settled !== 'late') this.#runner.destroy();
  }

  /** Fails every running and waiting request on the current device. */
  #failAll(reason: EngineError): void {
    this.#scheduler.stop(reason);
    this.#embedder.stop(reason);
  }

  #createEmbedder(runner: Runner, scheduler: Scheduler): Embedder | SequenceEmbedder {
    if (!runner.graph.shape.embedding) {
      const { slots } = runner.memory.capacity;
      const createSequence = (prompt: readonly number[]) =>
        new Sequence(
          { prompt, maxTokens: 0, sampling: greedySampling, stop: [], hiddenState: true },
          this.#tokenizer,
          performance.now(),
        );
      return new SequenceEmbedder(scheduler, { slots, createSequence });
    }
    // Its steps run as exclusive tasks of the scheduler, which has nothing else to run.
    return new Embedder(runner, {
      withDevice: (work) => scheduler.runExclusive(work),
      onFailure: (reason) => void this.#replaceAfterFailure(runner, reason),
    });
  }

  #createScheduler(runner: Runner): Scheduler {
    const {
      speculation = 'auto',
      unreadTokens,
      readerTimeoutMs: timeoutMs,
      clientWeights,
    } = this.#source.options;
    return new Scheduler(runner, () => performance.now(), {
      speculation,
      draft: runner.draftRunner,
      reader: {
        ...(unreadTokens === undefined ? {} : { unreadTokens }),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      },
      counts: this.counts,
      clientWeights,
      onFailure: (reason) => void this.#replaceAfterFailure(runner, reason),
    });
  }

  /** Why no request can run: `device_lost` or `shutting_down`; undefined when requests can run. */
  get unavailable(): EngineError | undefined {
    switch (this.#state) {
      case 'ready':
        return undefined;
      case 'closed':
        return new EngineError('shutting_down', 'the host is shutting down');
      case 'rebuilding':
        return new EngineError(
          'device_lost',
          'the GPU was lost and the model is being loaded again; try again shortly',
        );
      case 'lost':
        return new EngineError(
          'device_lost',
          'the GPU was lost and could not be opened again; restart the host',
        );
    }
  }

  /** @throws EngineError `device_lost` or `shutting_down` where no request can run */
  requireReady(): void {
    const { unavailable } = this;
    if (unavailable) throw unavailable;
  }

  #watchForLoss(runner: Runner): void {
    void runner.gpu.lost.then((reason) => this.#replaceDevice(runner, reason));
  }

  /**
   * Handles a failed step. If the cause is a lost device, the loss has a more precise reason and is reported shortly
   * after.
   */
  async #replaceAfterFailure(runner: Runner, reason: string): Promise<void> {
    await sleep(lossReportDelayMs);
    if (this.#state !== 'ready' || runner !== this.#runner) return;
    await this.#replaceDevice(runner, `a step failed: ${reason}`, 'failed');
  }

  /** The device of `lostRunner` is gone: fails its requests and loads the model once onto a new device. */
  async #replaceDevice(
    lostRunner: Runner,
    reason: string,
    cause: 'lost' | 'hangs' | 'failed' = 'lost',
  ): Promise<void> {
    if (this.#isClosed() || this.#state === 'rebuilding' || lostRunner !== this.#runner) return;
    const notice = this.#source.options.onNotice ?? (() => {});
    this.#losses += 1;
    this.#state = 'rebuilding';
    this.#watchdog.stop();
    if (lostRunner.boundPlans || this.#outgoingPlans || this.#trials > 0) {
      // The built-in kernels are not to blame.
      this.#hasAnswered = true;
      try {
        this.onBindingsLost?.(reason);
      } catch (error) {
        notice(`the lab failed to handle the loss of its kernels: ${String(error)}`);
      }
    }
    this.#failAll(new EngineError('device_lost', `the GPU was lost during the request (${reason})`));
    if (!this.#hasAnswered) {
      this.#state = 'lost';
      notice(`the GPU was lost again before any request succeeded (${reason}); giving up`);
      return;
    }
    notice(`the GPU was lost (${reason}); loading the model again`);
    try {
      // A device that still works frees its memory for the next one; a device that hangs cannot be destroyed.
      if (cause === 'failed') lostRunner.destroy();
      // The context length that was announced must still hold, so it is fixed for the new device.
      const options = { ...this.#source.options, context: this.#contextLength };
      const next = await openRunner({ ...this.#source, options }, cause === 'hangs');
      if (this.#isClosed()) {
        next.destroy();
        return;
      }
      this.#hasAnswered = false;
      this.#runner = next;
      this.#scheduler = this.#createScheduler(next);
      this.#embedder = this.#createEmbedder(next, this.#scheduler);
      this.#state = 'ready';
      this.#watchForLoss(next);
      const hasHungCores = cause === 'hangs' && next.gpu.caps.software;
      notice(
        `the model is loaded again${hasHungCores ? '; restart the host to free the cores that still hang' : ''}`,
      );
    } catch (error) {
      this.#state = 'lost';
      notice(`the GPU could not be opened again: ${errorMessage(error)}`);
    }
  }

  /** A method, so that the compiler assumes the state may change during any await. */
  #isClosed(): boolean {
    return this.#state === 'closed';
  }
}
