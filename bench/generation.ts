import { greedy, type Engine } from '../src/engine/index.ts';

/** Times of one generation, as a client of the engine sees them. */
export interface GenerationTimes {
  /** From the request to the first token of the answer. */
  readonly firstTokenMs: number;
  /** From that one to the last, divided by the tokens between; 0 for an answer of one token. */
  readonly perTokenMs: number;
}

/** Ids that are ordinary tokens in every vocabulary; which ones makes no difference to the time. */
export const promptOf = (length: number): number[] =>
  Array.from({ length }, (_, index) => 32 + ((index * 31) % 200));

/** A greedy answer of `tokens` tokens to a prompt of `context`. */
export async function timeGeneration(
  engine: Engine,
  { context, tokens }: { context: number; tokens: number },
): Promise<GenerationTimes> {
  const answer = engine.generate({
    prompt: promptOf(context),
    maxTokens: tokens,
    sampling: greedy,
    stop: [],
    ignoreEnd: true,
  });
  for await (const event of answer) {
    if (event.type !== 'end') continue;
    const { queued_ms, prefill_ms, decode_ms } = event.timings;
    return {
      firstTokenMs: queued_ms + prefill_ms,
      perTokenMs: tokens > 1 ? decode_ms / (tokens - 1) : 0,
    };
  }
  throw new Error('the engine ended an answer without its last event');
}
