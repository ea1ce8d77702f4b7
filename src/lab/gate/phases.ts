import type { CalibrationKernel } from './calibration-kernel.ts';
import type { Phase } from './time-limits.ts';

/** Reports the current phase of a registration to the host process, which applies a time limit to each phase. */
export class PhaseReporter {
  readonly #calibration: CalibrationKernel;
  readonly #onPhase: (phase: Phase, load: number) => void;
  #phase: Phase = 'gate';
  #load = 1;

  constructor(calibration: CalibrationKernel, onPhase: (phase: Phase, load: number) => void) {
    this.#calibration = calibration;
    this.#onPhase = onPhase;
  }

  /** Measures the current load of the machine. No candidate may be running. */
  async measureLoad(): Promise<void> {
    this.#load = await this.#calibration.measureLoad();
    this.#onPhase(this.#phase, this.#load);
  }

  /** Runs `work` in a phase. A nested phase replaces the outer one until it ends. */
  async during<T>(phase: Phase, work: () => Promise<T>): Promise<T> {
    const outerPhase = this.#phase;
    this.#enter(phase);
    try {
      return await work();
    } finally {
      this.#enter(outerPhase);
    }
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#onPhase(phase, this.#load);
  }
}
