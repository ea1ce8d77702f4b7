/** Target time in ms of a step with prompt tokens: while other sequences decode, and alone. */
const sharedStepMs = 250;
const loneStepMs = 1000;
const firstChunk = 32;
const leastChunk = 8;

/** Chooses the prompt tokens of a step (chunked prefill), so that prompts do not stall decoding sequences. */
export class PromptPace {
  /** Measured time of a prompt token; undefined until a step had enough of them. */
  #tokenMs: number | undefined;

  get tokenMs(): number {
    return this.#tokenMs ?? 0;
  }

  /** @param isShared true while other sequences decode */
  chunk(shared: boolean): number {
    if (this.#tokenMs === undefined) return firstChunk;
    const fit = (shared ? sharedStepMs : loneStepMs) / this.#tokenMs;
    return Math.max(leastChunk, Math.floor(fit / leastChunk) * leastChunk);
  }

  /** Records that a step with this many prompt tokens took `ms`. */
  learn(tokens: number, ms: number): void {
    if (tokens < leastChunk) return;
    const measured = ms / tokens;
    this.#tokenMs = this.#tokenMs === undefined ? measured : (this.#tokenMs + measured) / 2;
  }
}
