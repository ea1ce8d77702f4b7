import { EngineError } from '../types.ts';
import type { Runner } from './runner.ts';

/**
 * A step with lab kernels that takes longer counts as hung: far more than any step the scheduler forms. Software
 * adapters get additional time for each byte of weights, because slow ones need it.
 */
const hangTimeoutMs = 20_000;
const hangTimeoutMsPerByte = 20 / 1e6;
/** Longest time that compiling the kernels of a binding may block the queue. */
const compileTimeoutMs = 120_000;
/**
 * A software adapter computes in this process: on a busy machine, a step counts as hung only when it had that much processor time, or after
 * so many times the limit.
 */
const maxStarvation = 4;
const intervalMs = 500;

/** Detects a kernel that does not end. WebGPU does not report one, and its device cannot be destroyed. */
export class HangWatchdog {
  readonly #onHang: (reason: string) => void;
  /** Rejects the promises that wait for a device that hangs. */
  readonly #rejecters = new Set<(reason: unknown) => void>();
  readonly #processorMs: (() => number) | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  /** What is watched, by the time when it began, and the processor time when that was noticed. */
  #watched: { readonly since: number; readonly processorMs: number } | undefined;

  /**
   * @param onHang called once for each check that finds the device hung, after waiting work was rejected
   * @param processorMs processor time of this process
   */
  constructor(onHang: (reason: string) => void, processorMs?: () => number) {
    this.#onHang = onHang;
    this.#processorMs = processorMs;
  }

  /** Watches a runner for as long as `isNeeded` is true. */
  watch(runner: Runner, isNeeded: () => boolean): void {
    this.stop();
    this.#timer = setInterval(() => {
      if (!isNeeded()) this.stop();
      this.#check(runner);
    }, intervalMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /**
   * Resolves with the result of `work`.
   * @throws EngineError `device_lost` when the device is lost or hangs first
   */
  async race<T>(runner: Runner, work: Promise<T>): Promise<T> {
    const lost = runner.gpu.lost.then((reason): never => {
      throw new EngineError('device_lost', `the GPU was lost (${reason})`);
    });
    const { promise: hung, reject } = Promise.withResolvers<never>();
    this.#rejecters.add(reject);
    try {
      return await Promise.race([work, lost, hung]);
    } finally {
      this.#rejecters.delete(reject);
    }
  }

  #check({ gpu, weightBytes: bytes, oldestSubmit: step, compilingSince: compiling }: Runner): void {
    // The queue works on whatever was submitted first.
    const isStep = step !== undefined && (compiling === undefined || step < compiling);
    const since = isStep ? step : compiling;
    const allowed =
      hangTimeoutMs +
      (gpu.caps.software ? bytes * hangTimeoutMsPerByte : 0) +
      (isStep ? 0 : compileTimeoutMs);
    if (since !== this.#watched?.since)
      this.#watched = since === undefined ? undefined : { since, processorMs: this.#processorMs?.() ?? 0 };
    if (since === undefined || performance.now() - since < allowed) return;
    const used = (this.#processorMs?.() ?? Number.POSITIVE_INFINITY) - (this.#watched?.processorMs ?? 0);
    const isStarved = gpu.caps.software && used < allowed - 2 * intervalMs;
    if (isStarved && performance.now() - since < maxStarvation * allowed) return;
    const what = isStep ? 'a step' : 'compiling the kernels of a binding';
    const reason = `${what} did not end within ${Math.round(allowed / 1000)} s`;
    for (const reject of this.#rejecters) reject(new EngineError('device_lost', `the GPU hangs: ${reason}`));
    this.#onHang(reason);
  }
}
