import type { KnownKernel } from './known-kernel.ts';
import type { Phase } from './time-limits.ts';

/** Reports the current phase of a registration to the host process, which applies a time limit to each phase. */
export class Phases {
  readonly #known: KnownKernel;
  readonly #tell: (phase: Phase, load: number) => void;
  #phase: Phase = 'gate';
  #load = 1;

  constructor(known: KnownKernel, tell: (phase: Phase, load: number) => void) {
    this.#known = known;
    this.#tell = tell;
  }

  /** Measures the current load of the machine. No candidate may be running. */
  async measureLoad(): Promise<void> {
    this.#load = await this.#known.load();
    this.#tell(this.#phase, this.#load);
  }

  /** Runs `work` in a phase. A nested phase replaces the outer one until it ends. */
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
