/** Longest that a step with prompt tokens should take, in ms: while others wait for their next token, and alone. */
const sharedStepMs = 250;
const loneStepMs = 1000;
const firstChunk = 32;
const leastChunk = 8;

/** How many prompt tokens a step takes, so that they do not stall running answers. */
export class PromptPace {
  /** Of a prompt token, as measured; undefined until a step had enough of them. */
  #tokenMs: number | undefined;

  get tokenMs(): number {
    return this.#tokenMs ?? 0;
  }

  /** @param shared others wait for their next token */
  chunk(shared: boolean): number {
    if (this.#tokenMs === undefined) return firstChunk;
    const fit = (shared ? sharedStepMs : loneStepMs) / this.#tokenMs;
    return Math.max(leastChunk, Math.floor(fit / leastChunk) * leastChunk);
  }

  /** A step with so many prompt tokens took `ms`. */
  learn(tokens: number, ms: number): void {
    if (tokens < leastChunk) return;
    const measured = ms / tokens;
    this.#tokenMs = this.#tokenMs === undefined ? measured : (this.#tokenMs + measured) / 2;
  }
}
