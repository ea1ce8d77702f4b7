/** Target time in ms of a step with prompt tokens: while other sequences decode, and alone. */
const sharedStepMs = 250;
const loneStepMs = 1000;
const initialChunkTokens = 32;
const minChunkTokens = 8;

/** Chooses the prompt tokens of a step (chunked prefill), so that prompts do not stall decoding sequences. */
export class PrefillChunker {
  /** Measured time of a prompt token; undefined until a step had enough of them. */
  #msPerToken: number | undefined;

  get msPerToken(): number {
    return this.#msPerToken ?? 0;
  }

  /** @param isShared true while other sequences decode */
  chunkTokens(isShared: boolean): number {
    if (this.#msPerToken === undefined) return initialChunkTokens;
    const fit = (isShared ? sharedStepMs : loneStepMs) / this.#msPerToken;
    return Math.max(minChunkTokens, Math.floor(fit / minChunkTokens) * minChunkTokens);
  }

  /** Records that a step with this many prompt tokens took `ms`. */
  recordStepTime(tokens: number, ms: number): void {
    if (tokens < minChunkTokens) return;
    const measured = ms / tokens;
    this.#msPerToken = this.#msPerToken === undefined ? measured : (this.#msPerToken + measured) / 2;
  }
}
