import { ceilDiv, cartesianProduct, defineKernel, type AdapterCaps, type Kernel } from './define.ts';
import { pageTokens } from './rope-kv-write.ts';

/**
 * Maximum number of query vectors in a workgroup: tokens of the tile times heads of the group. Each needs two head rows
 * in registers, and in the variant with rope one in workgroup memory.
 */
const maxQueries = (headDim: number): number => (headDim > 256 ? 4 : 8);

/** What the kernels have in common; the fields of `lib/attention.wgsl`. */
export interface AttentionVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  LANES: number;
  HEAD_DIM: number;
  /** Tokens in a tile. */
  TILE: number;
  /** Query heads in a workgroup; they share a key head. */
  GROUP: number;
  PAGE: number;
  /** Sliding window: tokens attend to the last `params.window` positions, including their own. */
  WINDOW: boolean;
  /** Attention sinks: a learned score of each head takes part in the softmax. */
  SINKS: boolean;
}

export interface DecodeAttentionVariant extends AttentionVariant {
  /**
   * Writes the partial sums of a split for `attention_combine`, which also adds sinks. Otherwise one workgroup processes the
   * whole context.
   */
  SPLIT: boolean;
  /** Rotates q, and writes the key and value of the token. Requires subgroups. */
  ROPE: boolean;
  NEOX: boolean;
  /** Normalizes the heads of q and k before rope. */
  QK_NORM: boolean;
}

const cacheParams = [
  ['heads', 'u32'],
  ['kv_heads', 'u32'],
  ['max_pages', 'u32'],
  ['out_stride', 'u32'],
  ['scale', 'f32'],
  ['loop_limit', 'u32'],
  ['window', 'u32'],
] as const;

/** Lanes with subgroups, and 32 lanes without. */
const laneVariants = [4, 8, 16, 32, 0].map((lanes) => ({ SUBGROUPS: lanes > 0, LANES: lanes || 32 }));

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
    ['split_tokens', 'u32'],
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
  variants: cartesianProduct({
    lanes: laneVariants,
    HEAD_DIM: [64, 128, 256, 512],
    group: [
      { GROUP: 1, WINDOW: false },
      { GROUP: 1, WINDOW: true },
      { GROUP: 4, WINDOW: false },
      { GROUP: 7, WINDOW: false },
    ],
    SINKS: [false, true],
    rope: [
      { ROPE: false, NEOX: false, QK_NORM: false },
      { ROPE: true, NEOX: false, QK_NORM: false },
      { ROPE: true, NEOX: true, QK_NORM: false },
      { ROPE: true, NEOX: true, QK_NORM: true },
    ],
  })
    .map(({ lanes, HEAD_DIM, group, SINKS, rope }) => ({
      ...lanes,
      HEAD_DIM,
      TILE: 1,
      ...group,
      SPLIT: group.GROUP === 1,
      PAGE: pageTokens,
      SINKS,
      ...rope,
    }))
    .filter(({ SINKS, SPLIT, QK_NORM, HEAD_DIM }) => !SINKS || !(SPLIT || QK_NORM || HEAD_DIM > 64))
    .filter(({ SUBGROUPS, ROPE, QK_NORM, HEAD_DIM }) => !ROPE || (SUBGROUPS && QK_NORM === HEAD_DIM > 64))
    .filter(
      ({ HEAD_DIM, GROUP, WINDOW }) =>
        HEAD_DIM < 256 || (GROUP !== 7 && !WINDOW && GROUP <= maxQueries(HEAD_DIM)),
    )
    .filter(({ HEAD_DIM, GROUP }) => HEAD_DIM > 128 || GROUP !== 4),
});

/** `decodeAttention` for GPUs; the fields of `attention_flash_decode.wgsl`. Requires subgroups. */
export interface FlashDecodeVariant extends DecodeAttentionVariant {
  /** Subgroups of a workgroup, which share the positions. */
  SUBS: number;
  /** Lanes that share a position, 8 elements each at a time. */
  KEY_LANES: number;
}

/** Subgroups for 4 KiB of sums in workgroup memory and at most 256 threads, and lanes that divide the head. */
const flashShape = (lanes: number, headDim: number): Pick<FlashDecodeVariant, 'SUBS' | 'KEY_LANES'> => {
  let keyLanes = lanes;
  while ((headDim / 8) % keyLanes !== 0) keyLanes /= 2;
  const subs = headDim > 256 ? 2 : headDim > 128 ? 4 : 8;
  return { SUBS: Math.min(subs, 256 / lanes), KEY_LANES: keyLanes };
};

const minFlashLanes = 8;

/** Elements of a head that a lane may keep for each query: its loops over them are unrolled. */
const maxFlashElements = 64;

export const flashDecodeAttention = defineKernel({
  op: 'attention_decode',
  source: 'attention_flash_decode.wgsl',
  bindings: (variant: FlashDecodeVariant) => decodeAttention.bindings(variant),
  params: decodeAttention.params,
  grid: (variant: FlashDecodeVariant, params: { heads: number } & Record<string, number>, dims) =>
    decodeAttention.grid(variant, params, dims),
  variants: decodeAttention.variants
    .filter(({ SUBGROUPS, LANES }) => SUBGROUPS && LANES >= minFlashLanes)
    // Three heads take the same paths as seven, and compile in half the time on a software adapter.
    .map((variant) => (variant.GROUP === 7 ? { ...variant, GROUP: 3 } : variant))
    .flatMap((variant) => (variant.LANES === 32 ? [variant, { ...variant, LANES: 64 }] : [variant]))
    .map((variant) => ({ ...variant, ...flashShape(variant.LANES, variant.HEAD_DIM) })),
});

/** Tiles of several tokens of one sequence: the bindings, parameters and grid of prefill and of encoders. */
const wideTiles: Pick<
  Kernel<AttentionVariant, { heads: number } & Record<string, number>>,
  'bindings' | 'params' | 'grid'
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
};

/** `decodeAttention` for tiles of several tokens, whose keys and values are in the cache. */
export const prefillAttention = defineKernel({
  op: 'attention_prefill',
  source: 'attention_prefill.wgsl',
  ...wideTiles,
  variants: cartesianProduct({
    lanes: laneVariants,
    HEAD_DIM: [64, 128, 256, 512],
    shape: [
      { TILE: 4, GROUP: 2, WINDOW: false },
      { TILE: 4, GROUP: 2, WINDOW: true },
      { TILE: 8, GROUP: 1, WINDOW: false },
      { TILE: 2, GROUP: 2, WINDOW: false },
      { TILE: 2, GROUP: 2, WINDOW: true },
    ],
    SINKS: [false, true],
  })
    .map(({ lanes, HEAD_DIM, shape, SINKS }) => ({ ...lanes, HEAD_DIM, ...shape, PAGE: pageTokens, SINKS }))
    .filter(({ SINKS, HEAD_DIM, TILE }) => !SINKS || (HEAD_DIM === 64 && TILE < 8))
    .filter(({ HEAD_DIM, TILE, GROUP }) => HEAD_DIM < 256 || TILE * GROUP <= maxQueries(HEAD_DIM))
    .filter(({ HEAD_DIM, TILE, GROUP }) => HEAD_DIM > 128 || TILE * GROUP !== 4),
});

/** Every token attends to its whole sequence, or to a window in each direction. The tiles contain the length of the sequence. */
export const encoderAttention = defineKernel({
  op: 'attention_encoder',
  source: 'attention_encoder.wgsl',
  ...wideTiles,
  variants: cartesianProduct({
    lanes: laneVariants,
    HEAD_DIM: [64, 128],
    shape: [
      { TILE: 2, GROUP: 3, WINDOW: false },
      { TILE: 2, GROUP: 3, WINDOW: true },
      { TILE: 8, GROUP: 1, WINDOW: false },
    ],
  }).map(({ lanes, HEAD_DIM, shape }) => ({ ...lanes, HEAD_DIM, ...shape, PAGE: pageTokens, SINKS: false })),
});

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

function commonVariant(
  caps: AdapterCaps,
  model: AttentionModel,
  { tile, window = false, sinks = false }: { tile: number; window?: boolean; sinks?: boolean },
): AttentionVariant {
  const subgroup = attentionLanes(caps, model.headDim);
  let lanes = subgroup || 32;
  while (lanes > 32 || model.headDim % (2 * lanes) !== 0) lanes /= 2;
  return {
    SUBGROUPS: subgroup > 0,
    LANES: lanes,
    HEAD_DIM: model.headDim,
    TILE: tile,
    GROUP: attentionTile(model).group,
    PAGE: pageTokens,
    WINDOW: window,
    SINKS: sinks,
  };
}

interface DecodeMode {
  readonly split?: boolean;
  readonly rope?: 'interleaved' | 'neox';
  readonly qkNorm?: boolean;
  readonly window?: boolean;
  readonly sinks?: boolean;
}

/** The variant for GPUs; undefined on software adapters, without subgroups, and for heads that lanes cannot share. */
export function chooseFlashDecode(
  caps: AdapterCaps,
  model: AttentionModel,
  mode: DecodeMode,
): FlashDecodeVariant | undefined {
  const { software, subgroupSize: lanes = 0 } = caps;
  if (software || lanes < minFlashLanes || model.headDim % 8 !== 0) return undefined;
  const shape = flashShape(lanes, model.headDim);
  if (model.headDim / shape.KEY_LANES > maxFlashElements) return undefined;
  return { ...chooseDecodeAttention(caps, model, mode), SUBGROUPS: true, LANES: lanes, ...shape };
}

export function chooseDecodeAttention(
  caps: AdapterCaps,
  model: AttentionModel,
  mode: DecodeMode,
): DecodeAttentionVariant {
  const { split = false, rope, qkNorm = false, window = false, sinks = false } = mode;
  if (sinks && qkNorm) throw new Error('attention: qkNorm and sinks cannot be combined');
  return {
    ...commonVariant(caps, model, { tile: 1, window, sinks: sinks && !split }),
    SPLIT: split,
    ROPE: rope !== undefined,
    NEOX: rope === 'neox',
    QK_NORM: qkNorm,
  };
}

/** For prefill and, without `sinks`, for encoders. `maxTile`: limit for the tokens of a tile; default: that of the model. */
export function chooseWideAttention(
  caps: AdapterCaps,
  model: AttentionModel,
  { maxTile, ...mode }: { window?: boolean; sinks?: boolean; maxTile?: number },
): AttentionVariant {
  const { tile } = attentionTile(model);
  return commonVariant(caps, model, { ...mode, tile: Math.min(tile, maxTile ?? tile) });
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
  ) => [ceilDiv(params.heads * params.head_dim, variant.WG), dims.splitTiles, 1],
  variants: cartesianProduct({ WG: [64], SINKS: [false, true] }),
});
