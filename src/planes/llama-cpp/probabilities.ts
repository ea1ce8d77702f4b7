import type { Tokenizer, TokenLogprob } from '../../engine/index.ts';
import type { Probabilities } from './answer-schema.ts';

/** Log probabilities as llama.cpp writes them. */
export function toProbabilities(tokenizer: Tokenizer, logprobs: readonly TokenLogprob[]): Probabilities {
  const write = ({ id, logprob }: { id: number; logprob: number }) => {
    const bytes = tokenizer.isControl(id)
      ? new TextEncoder().encode(tokenizer.tokenText(id))
      : tokenizer.tokenBytes(id);
    // JSON has no infinity, which is what a token that cannot come has.
    const least = Math.max(-Number.MAX_VALUE, logprob);
    return { id, token: new TextDecoder().decode(bytes), bytes: [...bytes], logprob: least };
  };
  return logprobs.map((one) => ({ ...write(one), top_logprobs: one.top.map(write) }));
}
