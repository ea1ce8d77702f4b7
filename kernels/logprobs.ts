import { type AdapterCaps, combinations, defineKernel } from './define.ts';

/** Tokens that can be asked for beside the drawn one. */
export const mostLikely = 20;
/** 32-bit words a sample: its log probability, how many others follow, and for each its id and log probability. */
export const logprobWords = 2 + 2 * mostLikely;

/** Log probabilities of what was drawn and of what was likeliest, of samples that ask for them. */
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
    dims.logprobs ? [dims.samples, 1, 1] : [0, 0, 0],
  variants: combinations({ WG: [64, 256] }),
});

export function chooseLogprobs(caps: AdapterCaps): { WG: number } {
  return { WG: caps.software ? 64 : 256 };
}

/** A token's log probability, and those of the likeliest ones, the likeliest first. */
export interface TokenLogprobs {
  readonly logprob: number;
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

/** @param words [samples, logprobWords] as the kernel leaves them */
export function readLogprobs(words: Uint32Array, sample: number): TokenLogprobs {
  const at = sample * logprobWords;
  const floats = new Float32Array(words.buffer, words.byteOffset + at * 4, logprobWords);
  const found = words[at + 1] as number;
  return {
    logprob: floats[0] as number,
    top: Array.from({ length: found }, (_, index) => ({
      id: words[at + 2 + 2 * index] as number,
      logprob: floats[3 + 2 * index] as number,
    })),
  };
}
