import type { Measured } from '../conversation.ts';

/** The members of web-llm's usage that are read here. */
interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly extra: {
    readonly prefill_tokens_per_s: number;
    readonly decode_tokens_per_s: number;
    readonly time_per_output_token_s: number;
  };
}

/** Converts web-llm's usage, which excludes cached prompt tokens and gives rates and seconds. */
export const toMeasured = ({ prompt_tokens, completion_tokens, extra }: Usage): Measured => ({
  promptTokens: prompt_tokens,
  cachedTokens: 0,
  completionTokens: completion_tokens,
  prefillMs: extra.prefill_tokens_per_s > 0 ? (prompt_tokens / extra.prefill_tokens_per_s) * 1000 : 0,
  // Prefill produces the first token.
  decodeMs: Math.max(0, completion_tokens - 1) * extra.time_per_output_token_s * 1000,
  tokensPerSecond: completion_tokens > 1 ? extra.decode_tokens_per_s : undefined,
});
