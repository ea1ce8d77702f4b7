import { type AdapterCaps, ceilDiv, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';

/** Size of a sample record in 32-bit words, see `wgsl/lib/sample_record.wgsl`. */
export const sampleWords = 12;
export const sampleFlags = {
  bias: 1,
  penalties: 2,
  mask: 4,
  logprobs: 8,
  scored: 16,
  afterSampling: 32,
} as const;
/** Bit offset in the flags of the number of requested top tokens. */
export const topLogprobsShift = 8;
/** Value in `results` if no token could be sampled because the logits are NaN. */
export const noToken = 0xffffffff;

/** Size of the mask of one slot in 32-bit words. */
export const maskWords = (vocabulary: number): number => ceilDiv(vocabulary, 32);

/** Applies bias, penalties and mask to the logits. */
export const sampleAdjust = defineKernel({
  op: 'sample_adjust',
  source: 'sample_adjust.wgsl',
  bindings: () => [
    ['samples', 'read'],
    ['bias', 'read'],
    ['seen', 'read'],
    ['logits', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
    ['masks', 'read'],
  ],
  params: [['vocabulary', 'u32']],
  grid: (variant: { WG: number }, params: { vocabulary: number } & Record<string, number>, dims) =>
    dims.needsLogitAdjustment ? [ceilDiv(params.vocabulary, variant.WG), dims.samples, 1] : [0, 0, 0],
  variants: [{ WG: 64 }],
});

const pickVariants = lazily(() => variantsOnAllAdapters(vocabularyThreads));

/** Samples a token from each row of logits. */
export const samplePick = defineKernel({
  op: 'sample_pick',
  source: 'sample_pick.wgsl',
  bindings: () => [
    ['samples', 'read'],
    ['logits', 'read'],
    ['seen', 'read_write'],
    ['sampled', 'read_write'],
    ['results', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['vocabulary', 'u32'],
    ['rules', 'u32'],
    ['levels', 'u32'],
  ],
  grid: (_variant: { WG: number }, _params: { vocabulary: number } & Record<string, number>, dims) => [
    dims.samples,
    1,
    1,
  ],
  get variants() {
    return pickVariants();
  },
});

/** Filtered logits that sampling used, for samples that request log probabilities after sampling. */
export const sampledLogits = defineKernel({
  op: 'sampled_logits',
  source: 'sampled_logits.wgsl',
  bindings: () => [
    ['samples', 'read'],
    ['logits', 'read'],
    ['results', 'read'],
    ['raw', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['vocabulary', 'u32'],
    ['rules', 'u32'],
    ['levels', 'u32'],
  ],
  grid: (_variant: { WG: number }, _params: { vocabulary: number } & Record<string, number>, dims) =>
    dims.needsLogprobs ? [dims.samples, 1, 1] : [0, 0, 0],
  get variants() {
    return pickVariants();
  },
});

/**
 * Threads of a workgroup that shares a row of logits; the default first. A sample has the same bits with all of them. On a software
 * adapter, 16 to 128 take about the same time, and compiling another variant takes longer than it could save.
 */
export const vocabularyThreads = ({ software }: AdapterCaps): readonly { WG: number }[] =>
  software ? [{ WG: 64 }] : [{ WG: 256 }, { WG: 128 }, { WG: 64 }];

/** The default. */
export const chooseSamplePick = (caps: AdapterCaps): { WG: number } =>
  vocabularyThreads(caps)[0] as { WG: number };
