/**
 * How long a registration may take, by what it waits for. Only the kernel's own runs count against the limit of a
 * kernel: compiling and the gate's own work have limits of their own, and all of them grow with the machine's load.
 */

/** `compile`: Tint and the driver. `run`: the kernel on the GPU. `gate`: oracles, built-ins and comparisons. */
export type Phase = 'compile' | 'run' | 'gate';

/** Milliseconds in each phase, summed over one registration, at a load of 1. */
export type TimeLimits = Readonly<Record<Phase, number>>;

export const usualLimits: TimeLimits = { compile: 120_000, run: 20_000, gate: 300_000 };

/** Limits grow by the load up to this factor; beyond it no verdict about a kernel's time is given. */
export const maxStretch = 10;

/** Expires when the time in one phase exceeds its limit. */
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

  /** @param load how many times as long as on an idle reference machine work takes now */
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
