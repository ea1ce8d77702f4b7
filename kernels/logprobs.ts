import { defineKernel, lazily, variantsOnAllAdapters } from './define.ts';
import { vocabularyThreads } from './sample.ts';

/** Maximum number of top log probabilities for each sample. */
export const maxLikely = 20;
/**
 * 32-bit words for each sample: its log probability, the number of top tokens, and the id and log probability of each.
 */
export const logprobWords = 2 + 2 * maxLikely;

const variants = lazily(() => variantsOnAllAdapters(vocabularyThreads));

/** Log probabilities of the sampled token and of the top tokens, for samples that request them. */
export const logprobs = defineKernel({
  op: 'logprobs',
  source: 'logprobs.wgsl',
  bindings: () => [
    ['samples', 'read'],
    ['logits', 'read'],
    ['results', 'read'],
    ['logprobs', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [['vocabulary', 'u32']],
  grid: (_variant: { WG: number }, _params: { vocabulary: number } & Record<string, number>, dims) =>
    dims.needsLogprobs ? [dims.samples, 1, 1] : [0, 0, 0],
  get variants() {
    return variants();
  },
});

/** Log probability of the sampled token, and of the top tokens in descending order. */
export interface TokenLogprobs {
  readonly logprob: number;
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

/** @param words output of the kernel: [samples, logprobWords] */
export function readLogprobs(words: Uint32Array, sample: number): TokenLogprobs {
  const at = sample * logprobWords;
  const floats = new Float32Array(words.buffer, words.byteOffset + at * 4, logprobWords);
  const topCount = words[at + 1] as number;
  return {
    logprob: floats[0] as number,
    top: Array.from({ length: topCount }, (_, index) => ({
      id: words[at + 2 + 2 * index] as number,
      logprob: floats[3 + 2 * index] as number,
    })),
  };
}
