import { ceilDiv, cartesianProduct, defineKernel, type AdapterCaps, type StepDims } from './define.ts';
import { pageTokens } from './rope-kv-write.ts';

/**
 * Maximum number of query vectors in a workgroup: tokens of the tile times heads of the group. Each needs two head rows
 * in registers, and in the variant with rope one in workgroup memory.
 */
const maxQueries = (headDim: number): number => (headDim > 256 ? 4 : 8);

export interface AttentionVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  LANES: number;
  HEAD_DIM: number;
  /**
   * Writes the partial sums of a split for `attention_combine`. Otherwise one workgroup processes the whole context.
   */
  SPLIT: boolean;
  /** Tiles of several tokens. */
  WIDE: boolean;
  /** Tokens in a tile. */
  TILE: number;
  /** Query heads in a workgroup; they share a key head. */
  GROUP: number;
  PAGE: number;
  /** For tiles of one token: rotates q, and writes the key and value of the token. */
  ROPE: boolean;
  NEOX: boolean;
  /** Normalizes the heads of q and k before rope. */
  QK_NORM: boolean;
  /** Tokens also attend to later tokens. Their tiles contain the length of the sequence. */
  BIDIRECTIONAL: boolean;
  /** Sliding window: tokens attend to the last `params.window` positions, including their own. */
  WINDOW: boolean;
  /**
   * Attention sinks: a learned score of each head takes part in the softmax. With SPLIT, `attention_combine` adds it.
   */
  SINKS: boolean;
  /** Barrier between writing a key and reading it. Not needed, and slow, on software adapters with SIMD lanes. */
  BARRIER: boolean;
}

/** Variants that `attentionTile` can select for large heads; with a window, only wide tiles. */
const isLargeHeadVariant = ({
  HEAD_DIM,
  TILE,
  GROUP,
  BIDIRECTIONAL,
  WINDOW,
  WIDE,
}: AttentionVariant): boolean =>
  !BIDIRECTIONAL && GROUP !== 7 && (WIDE || !WINDOW) && TILE * GROUP <= maxQueries(HEAD_DIM);

/**
 * softmax(q k^T * scale) v over the paged cache, causal unless bidirectional, with grouped query heads. Output:
 * [tokens, heads, head_dim] f32.
 */
export const attention = defineKernel({
  op: 'attention',
  source: 'attention.wgsl',
  bindings: ({ ROPE, QK_NORM, SINKS }: AttentionVariant) => [
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
    ['heads', 'u32'],
    ['kv_heads', 'u32'],
    ['max_pages', 'u32'],
    ['split_tokens', 'u32'],
    ['max_splits', 'u32'],
    ['out_stride', 'u32'],
    ['scale', 'f32'],
    ['loop_limit', 'u32'],
    ['rotary', 'u32'],
    ['eps', 'f32'],
    ['window', 'u32'],
    ['writes', 'u32'],
    ['v_norm', 'u32'],
  ],
  grid: (variant: AttentionVariant, params: { heads: number } & Record<string, number>, dims) => [
    attentionTiles(variant, dims),
    params.heads / variant.GROUP,
    variant.SPLIT ? dims.splits : 1,
  ],
  variants: cartesianProduct({
    lanes: [4, 8, 16, 32, 0],
    HEAD_DIM: [64, 128, 256, 512],
    shape: [
      { TILE: 1, GROUP: 1, BIDIRECTIONAL: false },
      { TILE: 1, GROUP: 7, BIDIRECTIONAL: false },
      { TILE: 1, GROUP: 4, BIDIRECTIONAL: false },
      { TILE: 4, GROUP: 2, BIDIRECTIONAL: false },
      { TILE: 8, GROUP: 1, BIDIRECTIONAL: false },
      { TILE: 2, GROUP: 2, BIDIRECTIONAL: false },
      { TILE: 2, GROUP: 3, BIDIRECTIONAL: true },
      { TILE: 8, GROUP: 1, BIDIRECTIONAL: true },
    ].flatMap((shape) => {
      const plain = { ...shape, WINDOW: false };
      const hasWindowVariant = shape.BIDIRECTIONAL ? shape.GROUP > 1 : shape.GROUP < 3 && shape.TILE < 8;
      return hasWindowVariant ? [plain, { ...plain, WINDOW: true }] : [plain];
    }),
    sinks: [false, true],
    rope: [
      { ROPE: false, NEOX: false, QK_NORM: false, BARRIER: false },
      { ROPE: true, NEOX: false, QK_NORM: false, BARRIER: false },
      { ROPE: true, NEOX: false, QK_NORM: false, BARRIER: true },
      { ROPE: true, NEOX: true, QK_NORM: false, BARRIER: true },
      { ROPE: true, NEOX: true, QK_NORM: true, BARRIER: false },
      { ROPE: true, NEOX: true, QK_NORM: true, BARRIER: true },
    ],
  })
    .map(({ lanes, HEAD_DIM, shape, rope, sinks }) => ({
      SUBGROUPS: lanes > 0,
      LANES: lanes || 32,
      HEAD_DIM,
      ...shape,
      WIDE: shape.TILE > 1,
      SPLIT: shape.TILE === 1 && shape.GROUP === 1,
      PAGE: pageTokens,
      SINKS: sinks,
      ...rope,
    }))
    .filter(
      ({ SINKS, SPLIT, QK_NORM, HEAD_DIM, TILE }) =>
        !SINKS || !(SPLIT || QK_NORM || HEAD_DIM > 64 || TILE === 8),
    )
    .filter((variant) => !variant.ROPE || (variant.SUBGROUPS && !variant.WIDE))
    .filter((variant) => !variant.ROPE || variant.QK_NORM === variant.HEAD_DIM > 64)
    .filter((variant) => variant.HEAD_DIM < 256 || isLargeHeadVariant(variant))
    .filter(({ HEAD_DIM, TILE, GROUP }) => HEAD_DIM > 128 || TILE * GROUP !== 4),
});

/** Number of tiles. A step runs its single-token tiles either split or unsplit. */
function attentionTiles(variant: AttentionVariant, dims: StepDims): number {
  if (variant.WIDE) return dims.wideTiles;
  return variant.SPLIT === dims.splits > 1 ? dims.singleTiles : 0;
}

export interface AttentionModel {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

/** Maximum tokens of a wide tile and heads of a workgroup, when `heads / kvHeads` query heads share a key head. */
export function attentionTile({ heads, kvHeads, headDim }: AttentionModel): { tile: number; group: number } {
  const headsPerKeyHead = heads / kvHeads;
  const maxGroupQueries = maxQueries(headDim);
  let group = Math.min(headsPerKeyHead, maxGroupQueries);
  while (headsPerKeyHead % group !== 0) group -= 1;
  return { tile: Math.max(1, Math.floor(maxGroupQueries / group)), group };
}

/** Subgroup lanes that attention uses; 0 if it cannot use subgroups. */
export function attentionLanes(caps: AdapterCaps, headDim: number): number {
  const lanes = caps.subgroupSize ?? 0;
  return lanes > 0 && lanes <= 32 && headDim % (2 * lanes) === 0 ? lanes : 0;
}

export function chooseAttention(
  caps: AdapterCaps,
  model: AttentionModel,
  mode: {
    wide?: boolean;
    split?: boolean;
    rope?: 'interleaved' | 'neox';
    qkNorm?: boolean;
    bidirectional?: boolean;
    window?: boolean;
    sinks?: boolean;
    /** Limit for the tokens of a wide tile. Default: the maximum for the model. */
    tile?: number;
  },
): AttentionVariant {
  const { wide = false, split = false, rope, qkNorm = false, bidirectional = false, window = false } = mode;
  const { sinks = false } = mode;
  if (sinks && qkNorm) throw new Error('attention: qkNorm and sinks cannot be combined');
  const { tile, group } = attentionTile(model);
  const fits = (lanes: number) => lanes <= 32 && model.headDim % (2 * lanes) === 0;
  const subgroup = attentionLanes(caps, model.headDim);
  let lanes = subgroup || 32;
  while (!fits(lanes)) lanes /= 2;
  return {
    SUBGROUPS: subgroup > 0,
    LANES: lanes,
    HEAD_DIM: model.headDim,
    WIDE: wide,
    SPLIT: split,
    TILE: wide ? Math.min(tile, mode.tile ?? tile) : 1,
    GROUP: group,
    PAGE: pageTokens,
    ROPE: rope !== undefined,
    NEOX: rope === 'neox',
    QK_NORM: qkNorm,
    BIDIRECTIONAL: bidirectional,
    WINDOW: window,
    SINKS: sinks && !split,
    BARRIER: rope !== undefined && !caps.software,
  };
}

/** Combines the partial results of the splits of `attention`. */
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
    ['split_tokens', 'u32'],
    ['max_splits', 'u32'],
    ['out_stride', 'u32'],
    ['window', 'u32'],
  ],
  grid: (
    variant: { WG: number; SINKS: boolean },
    params: { heads: number; head_dim: number } & Record<string, number>,
    dims,
  ) =>
    // A single split writes its result directly.
    dims.splits > 1 ? [ceilDiv(params.heads * params.head_dim, variant.WG), dims.singleTiles, 1] : [0, 0, 0],
  variants: cartesianProduct({ WG: [64], SINKS: [false, true] }),
});
