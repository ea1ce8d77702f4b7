import type { Timings as EngineTimings, Usage } from '../../engine/index.ts';
import type { Timings } from './answer-schema.ts';

/** As the engine measured them. */
export const toTimings = (usage: Usage, timings: EngineTimings, predicted: number): Timings => ({
  cache_n: usage.cached_tokens,
  ...parts(usage.prompt_tokens - usage.cached_tokens, timings.prefill_ms, predicted, timings.decode_ms),
});

/** What is known from outside while an answer is on its way: its wait counts as the prompt's time. */
export class Watch {
  readonly #start = performance.now();
  readonly #promptTokens: number;
  #first: number | undefined;
  predicted = 0;

  constructor(promptTokens: number) {
    this.#promptTokens = promptTokens;
  }

  /** @returns whether these were the first */
  count(tokens: number): boolean {
    const first = this.#first === undefined;
    this.#first ??= performance.now();
    this.predicted += tokens;
    return first;
  }

  get promptMs(): number {
    return (this.#first ?? performance.now()) - this.#start;
  }

  timings(): Timings {
    const predictedMs = this.#first === undefined ? 0 : performance.now() - this.#first;
    return parts(this.#promptTokens, this.promptMs, this.predicted, predictedMs);
  }
}

const ratio = (amount: number, of: number): number => (of > 0 ? amount / of : 0);

const parts = (promptTokens: number, promptMs: number, predicted: number, predictedMs: number) => ({
  prompt_n: promptTokens,
  prompt_ms: promptMs,
  prompt_per_token_ms: ratio(promptMs, promptTokens),
  prompt_per_second: ratio(promptTokens * 1000, promptMs),
  predicted_n: predicted,
  predicted_ms: predictedMs,
  predicted_per_token_ms: ratio(predictedMs, predicted),
  predicted_per_second: ratio(predicted * 1000, predictedMs),
});
