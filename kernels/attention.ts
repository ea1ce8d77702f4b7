import type { AttentionVariant, DecodeAttentionVariant, FlashDecodeVariant } from './attention-choices.ts';
import {
  decodeModePath,
  decodeVariants,
  encoderVariants,
  flashPath,
  flashVariants,
  prefillVariants,
  registersPath,
  wideModePath,
} from './attention-variants.ts';
import { cartesianProduct, ceilDiv, defineKernel, type Kernel } from './define.ts';

const cacheParams = [
  ['heads', 'u32'],
  ['kv_heads', 'u32'],
  ['max_pages', 'u32'],
  ['out_stride', 'u32'],
  ['scale', 'f32'],
  ['loop_limit', 'u32'],
  ['window', 'u32'],
] as const;

/** Heads of one row of workgroups. */
const headGroups = (variant: AttentionVariant, params: { heads: number }): number =>
  params.heads / variant.GROUP;

/**
 * softmax(q k^T * scale) v for tiles of one token over the paged cache, causal, with grouped query heads. Output: [tokens, heads,
 * head_dim] f32.
 */
export const decodeAttention = defineKernel({
  op: 'attention_decode',
  source: 'attention_decode.wgsl',
  bindings: ({ ROPE, QK_NORM, SINKS }: DecodeAttentionVariant) => [
    ['qkv', 'read'],
    ['tiles', 'read'],
    ['page_table', 'read'],
    ['k_cache', ROPE ? 'read_write' : 'read'],
    ['v_cache', ROPE ? 'read_write' : 'read'],
    ['out', 'read_write'],
    ['params', 'uniform'],
    ROPE ? ['table', 'read'] : undefined,
    QK_NORM ? ['norm_weight', 'read'] : SINKS ? ['sinks', 'read'] : undefined,
  ],
  params: [
    ...cacheParams,
    ['max_splits', 'u32'],
    ['rotary', 'u32'],
    ['eps', 'f32'],
    ['writes', 'u32'],
    ['v_norm', 'u32'],
  ],
  grid: (variant: DecodeAttentionVariant, params: { heads: number } & Record<string, number>, dims) => [
    variant.SPLIT ? dims.splitTiles : dims.singleTiles,
    headGroups(variant, params),
    variant.SPLIT ? dims.splits : 1,
  ],
  get variants() {
    return decodeVariants();
  },
  paths: (variant) => [decodeModePath(variant), registersPath(variant)],
});

export const flashDecodeAttention = defineKernel({
  op: 'attention_decode',
  source: 'attention_flash_decode.wgsl',
  bindings: (variant: FlashDecodeVariant) => decodeAttention.bindings(variant),
  params: decodeAttention.params,
  grid: (variant: FlashDecodeVariant, params: { heads: number } & Record<string, number>, dims) =>
    decodeAttention.grid(variant, params, dims),
  get variants() {
    return flashVariants();
  },
  paths: (variant) => [decodeModePath(variant), flashPath(variant)],
});

/** Tiles of several tokens of one sequence: the bindings, parameters and grid of prefill and of encoders. */
const wideTiles: Pick<
  Kernel<AttentionVariant, { heads: number } & Record<string, number>>,
  'bindings' | 'params' | 'grid' | 'paths'
> = {
  bindings: ({ SINKS }) => [
    ['qkv', 'read'],
    ['tiles', 'read'],
    ['page_table', 'read'],
    ['k_cache', 'read'],
    ['v_cache', 'read'],
    ['out', 'read_write'],
    ['params', 'uniform'],
    SINKS ? ['sinks', 'read'] : undefined,
  ],
  params: cacheParams,
  grid: (variant, params, dims) => [dims.wideTiles, headGroups(variant, params), 1],
  paths: (variant) => [wideModePath(variant), registersPath(variant)],
};

/** `decodeAttention` for tiles of several tokens, whose keys and values are in the cache. */
export const prefillAttention = defineKernel({
  op: 'attention_prefill',
  source: 'attention_prefill.wgsl',
  ...wideTiles,
  get variants() {
    return prefillVariants();
  },
});

/** Every token attends to its whole sequence, or to a window in each direction. The tiles contain the length of the sequence. */
export const encoderAttention = defineKernel({
  op: 'attention_encoder',
  source: 'attention_encoder.wgsl',
  ...wideTiles,
  get variants() {
    return encoderVariants();
  },
});

/** Combines the partial results of the splits of `attention`. A tile has the positions of a split in the upper half of its second word. */
export const attentionCombine = defineKernel({
  op: 'attention_combine',
  source: 'attention_combine.wgsl',
  bindings: ({ SINKS }: { WG: number; SINKS: boolean }) => [
    ['partial', 'read'],
    ['tiles', 'read'],
    ['out', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
    SINKS ? ['sinks', 'read'] : undefined,
  ],
  params: [
    ['heads', 'u32'],
    ['head_dim', 'u32'],
    ['max_splits', 'u32'],
    ['out_stride', 'u32'],
    ['window', 'u32'],
  ],
  grid: (
    variant: { WG: number; SINKS: boolean },
    params: { heads: number; head_dim: number } & Record<string, number>,
    dims,
  ) => [ceilDiv(params.heads * params.head_dim, variant.WG), dims.splitTiles, 1],
  variants: cartesianProduct({ WG: [64], SINKS: [false, true] }),
});
