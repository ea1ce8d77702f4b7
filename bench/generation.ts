import { type Engine, greedy } from '../src/engine/index.ts';

/** Times of one generation, as a client of the engine sees them. */
export interface GenerationTimes {
  /** From the request to the first token of the answer. */
  readonly firstTokenMs: number;
  /** From that one to the last, divided by the tokens between; 0 for an answer of one token. */
  readonly perTokenMs: number;
}

/**
 * Ids that are ordinary tokens in every vocabulary; which ones makes no difference to the time. Prompts of two
 * salts differ from their first page of tokens on, so that no cache of prefixes serves one with the other's.
 */
export const promptOf = (length: number, salt = 0): number[] =>
  Array.from(
    { length },
    (_, index) => 32 + ((Math.imul(index + 1 + salt * 65_537, 0x9e3779b1) >>> 16) % 200),
  );

let salts = 0;

/** A prompt that this process never made before: nothing of it can be cached. */
export const freshPrompt = (length: number): number[] => promptOf(length, ++salts);

/** A greedy answer of `tokens` tokens to `prompt`, and how much of the prompt the engine had already. */
export async function timeAnswer(
  engine: Engine,
  prompt: readonly number[],
  tokens: number,
): Promise<GenerationTimes & { readonly cachedTokens: number }> {
  const answer = engine.generate({
    prompt,
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
      cachedTokens: event.usage.cached_tokens,
    };
  }
  throw new Error('the engine ended an answer without its last event');
}

/** A greedy answer of `tokens` tokens to a new prompt of `context`: cold, whatever was asked before. */
export async function timeGeneration(
  engine: Engine,
  { context, tokens }: { context: number; tokens: number },
): Promise<GenerationTimes> {
  const { firstTokenMs, perTokenMs } = await timeAnswer(engine, freshPrompt(context), tokens);
  return { firstTokenMs, perTokenMs };
}
