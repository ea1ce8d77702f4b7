/**
 * Time limits of a registration, by phase. Only runs of the kernel count against its limit; compiling and the work of
 * the gate have separate limits. All limits grow with the load of the machine.
 */

/** `compile`: Tint and the driver. `run`: the kernel on the GPU. `gate`: oracles, built-in kernels, comparisons. */
export type Phase = 'compile' | 'run' | 'gate';

/** Milliseconds for each phase, summed over one registration, at a load of 1. */
export type TimeLimits = Readonly<Record<Phase, number>>;

export const defaultTimeLimits: TimeLimits = { compile: 120_000, run: 20_000, gate: 300_000 };

/** Limits are multiplied by the load up to this factor. Above it, the gate answers `lab_busy` instead of a verdict. */
export const maxLimitFactor = 10;

/** Calls `onExpired` when the time in one phase exceeds its limit. */
export class PhaseTimer {
  readonly #remainingMs: Record<Phase, number>;
  readonly #onExpired: (phase: Phase, load: number) => void;
  #phase: Phase = 'gate';
  #load = 1;
  #phaseStartMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(limits: TimeLimits, onExpired: (phase: Phase, load: number) => void) {
    this.#remainingMs = { ...limits };
    this.#onExpired = onExpired;
    this.#startTimer();
  }

  /** @param load current slowness relative to an idle reference machine, from 1 */
  enter(phase: Phase, load: number): void {
    if (this.#isStopped) return;
    const now = performance.now();
    this.#remainingMs[this.#phase] -= (now - this.#phaseStartMs) / limitFactor(this.#load);
    this.#phaseStartMs = now;
    this.#phase = phase;
    this.#load = load;
    this.#startTimer();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #startTimer(): void {
    clearTimeout(this.#timer);
    const ms = Math.max(0, this.#remainingMs[this.#phase]) * limitFactor(this.#load);
    this.#timer = setTimeout(() => this.#onExpired(this.#phase, this.#load), ms);
  }
}

const limitFactor = (load: number): number => Math.min(maxLimitFactor, Math.max(1, load));
