import type { KnownKernel } from './known-kernel.ts';
import type { Phase } from './time-limits.ts';

/** Tells the process outside what a registration waits for, so that each phase has a limit of its own. */
export class Phases {
  readonly #known: KnownKernel;
  readonly #tell: (phase: Phase, load: number) => void;
  #phase: Phase = 'gate';
  #load = 1;

  constructor(known: KnownKernel, tell: (phase: Phase, load: number) => void) {
    this.#known = known;
    this.#tell = tell;
  }

  /** Measures how slow the machine is now. No candidate may be running. */
  async measureLoad(): Promise<void> {
    this.#load = await this.#known.load();
    this.#tell(this.#phase, this.#load);
  }

  /** Phases do not overlap: a phase inside of another one takes its place until it ends. */
  async during<T>(phase: Phase, work: () => Promise<T>): Promise<T> {
    const before = this.#phase;
    this.#enter(phase);
    try {
      return await work();
    } finally {
      this.#enter(before);
    }
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#tell(phase, this.#load);
  }
}
