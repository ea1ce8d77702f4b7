import { type Engine, greedySampling } from '../src/engine/index.ts';

/** Times of one generation, measured by a client of the engine. */
export interface GenerationTimes {
  /** From the request to the first token of the answer. */
  readonly firstTokenMs: number;
  /** Mean time between two tokens after the first one; 0 for an answer of one token. */
  readonly perTokenMs: number;
}

/**
 * A prompt of ids that are ordinary tokens in every vocabulary; timing does not depend on the ids. Prompts with
 * different salts differ within their first page of tokens, so that they share no cached prefix.
 */
export const promptOf = (length: number, salt = 0): number[] =>
  Array.from(
    { length },
    (_, index) => 32 + ((Math.imul(index + 1 + salt * 65_537, 0x9e3779b1) >>> 16) % 200),
  );

let salts = 0;

/** A prompt that is new in this process, so that no part of it is cached. */
export const freshPrompt = (length: number): number[] => promptOf(length, ++salts);

/** Times a greedy answer of `tokens` tokens to `prompt`, and reports the number of cached prompt tokens. */
export async function timeAnswer(
  engine: Engine,
  prompt: readonly number[],
  tokens: number,
): Promise<GenerationTimes & { readonly cachedTokens: number }> {
  const answer = engine.generate({
    prompt,
    maxTokens: tokens,
    sampling: greedySampling,
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

/** Times a greedy answer of `tokens` tokens to a new prompt of `context` tokens, without cached tokens. */
export async function timeGeneration(
  engine: Engine,
  { context, tokens }: { context: number; tokens: number },
): Promise<GenerationTimes> {
  const { firstTokenMs, perTokenMs } = await timeAnswer(engine, freshPrompt(context), tokens);
  return { firstTokenMs, perTokenMs };
}
