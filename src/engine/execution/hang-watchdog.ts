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
const intervalMs = 500;

/** Detects a kernel that does not end. WebGPU does not report one, and its device cannot be destroyed. */
export class HangWatchdog {
  readonly #onHang: (reason: string) => void;
  /** Rejects the promises that wait for a device that hangs. */
  readonly #rejecters = new Set<(reason: unknown) => void>();
  #timer: ReturnType<typeof setInterval> | undefined;

  /** @param onHang called once for each check that finds the device hung, after waiting work was rejected */
  constructor(onHang: (reason: string) => void) {
    this.#onHang = onHang;
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
    if (since === undefined || performance.now() - since < allowed) return;
    const what = isStep ? 'a step' : 'compiling the kernels of a binding';
    const reason = `${what} did not end within ${Math.round(allowed / 1000)} s`;
    for (const reject of this.#rejecters) reject(new EngineError('device_lost', `the GPU hangs: ${reason}`));
    this.#onHang(reason);
  }
}
