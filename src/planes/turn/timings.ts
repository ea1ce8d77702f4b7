import type { PromptProgress, Timings as EngineTimings, Usage } from '../../engine/index.ts';
import type { Timings } from '../../wires/core/timings-schema.ts';

interface FinishedAnswer {
  readonly usage: Usage;
  readonly timings: EngineTimings;
}

/** Timings of one answer, as measured by the engine. */
export const toTimings = ({ usage, timings: { prefill_ms, decode_ms } }: FinishedAnswer): Timings =>
  toWireTimings(usage.cached_tokens, usage, prefill_ms, decode_ms);

/**
 * Timings of all answers to one request. Each prompt is counted once. The answers are generated concurrently, so the
 * longest time is the request's.
 * @param answersPerPrompt number of answers per prompt
 */
export function toSharedTimings(
  ends: readonly (FinishedAnswer & { readonly choice: number })[],
  answersPerPrompt: number,
): Timings {
  const firsts = ends.filter(({ choice }) => choice % answersPerPrompt === 0);
  const sum = (of: readonly FinishedAnswer[], member: keyof Usage) =>
    of.reduce((total, { usage }) => total + usage[member], 0);
  const longest = (member: keyof EngineTimings) => Math.max(0, ...ends.map((end) => end.timings[member]));
  const usage = {
    prompt_tokens: sum(firsts, 'prompt_tokens'),
    completion_tokens: sum(ends, 'completion_tokens'),
  };
  return toWireTimings(sum(firsts, 'cached_tokens'), usage, longest('prefill_ms'), longest('decode_ms'));
}

/** Measures an answer while it is generated; its request asks the engine for `progress`. */
export class AnswerStopwatch {
  readonly #promptTokens: number;
  readonly #now: () => number;
  #prompt: PromptProgress = { type: 'prompt', processed: 0, cached: 0, ms: 0 };
  #firstTokenMs: number | undefined;
  #tokenCount = 0;

  /** @param now in milliseconds */
  constructor(promptTokens: number, now: () => number = () => performance.now()) {
    this.#promptTokens = promptTokens;
    this.#now = now;
  }

  setProgress(progress: PromptProgress): void {
    this.#prompt = progress;
  }

  addTokens(tokens: number): void {
    this.#firstTokenMs ??= this.#now();
    this.#tokenCount += tokens;
  }

  timings(): Timings {
    const { cached, ms } = this.#prompt;
    const predictedMs = this.#firstTokenMs === undefined ? 0 : this.#now() - this.#firstTokenMs;
    const usage = { prompt_tokens: this.#promptTokens, completion_tokens: this.#tokenCount };
    return toWireTimings(cached, usage, ms, predictedMs);
  }
}

const ratio = (amount: number, of: number): number => (of > 0 ? amount / of : 0);

function toWireTimings(
  cached: number,
  { prompt_tokens, completion_tokens: predicted }: Pick<Usage, 'prompt_tokens' | 'completion_tokens'>,
  promptMs: number,
  predictedMs: number,
): Timings {
  const computed = prompt_tokens - cached;
  return {
    cache_n: cached,
    prompt_n: computed,
    prompt_ms: promptMs,
    prompt_per_token_ms: ratio(promptMs, computed),
    prompt_per_second: ratio(computed * 1000, promptMs),
    predicted_n: predicted,
    predicted_ms: predictedMs,
    predicted_per_token_ms: ratio(predictedMs, predicted),
    predicted_per_second: ratio(predicted * 1000, predictedMs),
  };
}
