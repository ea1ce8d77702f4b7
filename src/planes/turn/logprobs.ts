import type { TokenLogprob as EngineLogprob, Tokenizer } from '../../engine/index.ts';
import type { TokenLogprob } from '../../wires/core/answer.ts';

/** JSON has no infinity; OpenAI's wire writes what is as good as impossible like this. */
const leastLogprob = -9999;
export const finite = (logprob: number): number => Math.max(logprob, leastLogprob);

/** Log probabilities with the texts of their tokens. */
export function writeLogprobs(tokenizer: Tokenizer, entries: readonly EngineLogprob[]): TokenLogprob[] {
  const written = ({ id, logprob }: Pick<EngineLogprob, 'id' | 'logprob'>) => {
    const bytes = bytesOf(tokenizer, id);
    const token = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
    return { token, logprob: finite(logprob), bytes: [...bytes] };
  };
  return entries.map((entry) => ({ ...written(entry), top_logprobs: entry.top.map(written) }));
}

export function bytesOf(tokenizer: Tokenizer, id: number): Uint8Array {
  if (tokenizer.isControl(id)) return new TextEncoder().encode(tokenizer.tokenText(id));
  return tokenizer.tokenBytes(id);
}
