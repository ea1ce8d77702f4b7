/**
 * Time limits of a registration, by phase. Only runs of the kernel count against its limit; compiling and the work of
 * the gate have separate limits. All limits grow with the load of the machine.
 */

/** `compile`: Tint and the driver. `run`: the kernel on the GPU. `gate`: oracles, built-in kernels, comparisons. */
export type Phase = 'compile' | 'run' | 'gate';

/** Milliseconds for each phase, summed over one registration, at a load of 1. */
export type TimeLimits = Readonly<Record<Phase, number>>;

export const usualLimits: TimeLimits = { compile: 120_000, run: 20_000, gate: 300_000 };

/** Limits are multiplied by the load up to this factor. Above it, the gate answers `lab_busy` instead of a verdict. */
export const maxStretch = 10;

/** Calls `onExpired` when the time in one phase exceeds its limit. */
export class PhaseTimer {
  readonly #left: Record<Phase, number>;
  readonly #onExpired: (phase: Phase, load: number) => void;
  #phase: Phase = 'gate';
  #load = 1;
  #since = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(limits: TimeLimits, onExpired: (phase: Phase, load: number) => void) {
    this.#left = { ...limits };
    this.#onExpired = onExpired;
    this.#arm();
  }

  /** @param load current slowness relative to an idle reference machine, from 1 */
  enter(phase: Phase, load: number): void {
    if (this.#isStopped) return;
    const now = performance.now();
    this.#left[this.#phase] -= (now - this.#since) / stretch(this.#load);
    this.#since = now;
    this.#phase = phase;
    this.#load = load;
    this.#arm();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const ms = Math.max(0, this.#left[this.#phase]) * stretch(this.#load);
    this.#timer = setTimeout(() => this.#onExpired(this.#phase, this.#load), ms);
  }
}

const stretch = (load: number): number => Math.min(maxStretch, Math.max(1, load));
