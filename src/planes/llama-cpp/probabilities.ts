import type { Tokenizer, TokenLogprob } from '../../engine/index.ts';
import { toProbability } from '../../wires/chat/resident-form.ts';
import type { Probabilities } from './answer-schema.ts';

/**
 * Log probabilities as llama.cpp writes them.
 * @param postSampling they are of the distribution that was drawn from
 */
export function toProbabilities(
  tokenizer: Tokenizer,
  logprobs: readonly TokenLogprob[],
  postSampling: boolean,
): Probabilities {
  const token = (id: number) => {
    const bytes = tokenizer.isControl(id)
      ? new TextEncoder().encode(tokenizer.tokenText(id))
      : tokenizer.tokenBytes(id);
    return { id, token: new TextDecoder().decode(bytes), bytes: [...bytes] };
  };
  if (postSampling) {
    const write = ({ id, logprob }: Named) => ({ ...token(id), prob: toProbability(logprob) });
    return logprobs.map((one) => ({ ...write(one), top_probs: one.top.map(write) }));
  }
  // JSON has no infinity, which is what a token that cannot come has.
  const write = ({ id, logprob }: Named) => ({ ...token(id), logprob: Math.max(-Number.MAX_VALUE, logprob) });
  return logprobs.map((one) => ({ ...write(one), top_logprobs: one.top.map(write) }));
}

type Named = Pick<TokenLogprob, 'id' | 'logprob'>;
