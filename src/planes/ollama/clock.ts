import type { Timings } from '../../wires/core/answer.ts';

const nanoseconds = (ms: number): number => Math.max(0, Math.round(ms * 1e6));

/**
 * Formats the times of one answer for Ollama: timestamps in RFC 3339 with nanoseconds, durations in nanoseconds.
 */
export class Clock {
  readonly #start = performance.now();
  readonly #startedAt = Date.now();
  #loadMs = 0;

  /** Marks the end of loading the model. */
  loaded(): void {
    this.#loadMs = performance.now() - this.#start;
  }

  now(): string {
    const sinceMs = performance.now() - this.#start;
    const whole = Math.floor(sinceMs);
    const at = new Date(this.#startedAt + whole).toISOString().slice(0, -1);
    const below = Math.floor((sinceMs - whole) * 1e6);
    return `${at}${String(below).padStart(6, '0')}Z`;
  }

  loading() {
    return {
      total_duration: nanoseconds(performance.now() - this.#start),
      load_duration: nanoseconds(this.#loadMs),
    };
  }

  /** The durations of a complete answer; at least 1 ns, because clients divide by them. */
  durations(timings: Timings) {
    return {
      ...this.loading(),
      prompt_eval_count: timings.cache_n + timings.prompt_n,
      prompt_eval_duration: Math.max(1, nanoseconds(timings.prompt_ms)),
      eval_count: timings.predicted_n,
      eval_duration: Math.max(1, nanoseconds(timings.predicted_ms)),
    };
  }
}
