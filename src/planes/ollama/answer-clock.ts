import type { Timings } from '../../wires/core/answer.ts';

const toNanoseconds = (ms: number): number => Math.max(0, Math.round(ms * 1e6));

/**
 * Formats the times of one answer for Ollama: timestamps in RFC 3339 with nanoseconds, durations in nanoseconds.
 */
export class AnswerClock {
  readonly #start = performance.now();
  readonly #startedAt = Date.now();
  #loadMs = 0;

  /** Marks the end of loading the model. */
  markLoaded(): void {
    this.#loadMs = performance.now() - this.#start;
  }

  now(): string {
    const sinceMs = performance.now() - this.#start;
    const wholeMs = Math.floor(sinceMs);
    const timestamp = new Date(this.#startedAt + wholeMs).toISOString().slice(0, -1);
    const fractionNs = Math.floor((sinceMs - wholeMs) * 1e6);
    return `${timestamp}${String(fractionNs).padStart(6, '0')}Z`;
  }

  loadDurations() {
    return {
      total_duration: toNanoseconds(performance.now() - this.#start),
      load_duration: toNanoseconds(this.#loadMs),
    };
  }

  /** The durations of a complete answer; at least 1 ns, because clients divide by them. */
  durations(timings: Timings) {
    return {
      ...this.loadDurations(),
      prompt_eval_count: timings.cache_n + timings.prompt_n,
      prompt_eval_duration: Math.max(1, toNanoseconds(timings.prompt_ms)),
      eval_count: timings.predicted_n,
      eval_duration: Math.max(1, toNanoseconds(timings.predicted_ms)),
    };
  }
}
