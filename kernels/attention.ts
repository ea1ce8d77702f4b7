import {
  type AdapterCaps,
  adapterCaps,
  ceilDiv,
  cartesianProduct,
  defineKernel,
  distinctVariants,
  type Kernel,
  lazily,
} from './define.ts';
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
  get variants() {
    return decodeVariants();
  },
  paths: (variant) => [decodeModePath(variant), registersPath(variant)],
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

/** Whether decoding can rotate in the attention kernel. */
export const rotatesInAttention = (caps: AdapterCaps, headDim: number): boolean =>
  attentionLanes(caps, headDim) > 0;

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

/** The heads of a layer, as far as variants depend on them. */
interface HeadShape {
  readonly headDim: number;
  /** Query heads that share a key head. */
  readonly shared: number;
  readonly rope: 'interleaved' | 'neox';
  readonly qkNorm?: boolean;
  /** Layers with a window; they do without where the served context is shorter. */
  readonly window?: boolean;
  /** The model's context is too short to be split. */
  readonly isShort?: boolean;
  readonly sinks?: boolean;
  /** Limit for the tokens of a wide tile, where other layers of the model have wider heads. */
  readonly maxTile?: number;
  /** Decoding does not rotate, on no adapter: the heads of other layers do not allow it, or a lab kernel rotates. */
  readonly isUnrotated?: boolean;
}

const shapes = (headDim: number, counts: readonly number[], traits: Omit<HeadShape, 'headDim' | 'shared'>) =>
  counts.map((shared): HeadShape => ({ headDim, shared, ...traits }));
const [interleaved, neox] = [{ rope: 'interleaved' }, { rope: 'neox' }] as const;
const qkNorm = { ...neox, qkNorm: true } as const;

/** Heads of the models of docs/models.md, and those that are used most. Every variant of theirs is listed. */
const listedShapes: readonly HeadShape[] = [
  // The embedded model, SmolLM2 135M, and Llama 3.1 8B.
  ...shapes(64, [2, 3], interleaved),
  ...shapes(128, [4], interleaved),
  // Qwen2.5 0.5B, and Phi 3 mini with a window and without.
  ...shapes(64, [7], neox),
  ...shapes(96, [1], neox),
  ...shapes(96, [1], { ...neox, window: true }),
  // LFM2 350M, Qwen3 0.6B, 4B and 30B-A3B, and Qwen3.5 0.8B.
  ...shapes(64, [2], qkNorm),
  ...shapes(128, [2, 4, 8], qkNorm),
  ...shapes(256, [4], qkNorm),
  // Gemma 4 E2B has heads of two sizes.
  ...shapes(256, [8], { ...qkNorm, window: true, maxTile: 1 }),
  ...shapes(512, [8], qkNorm),
  // gpt-oss.
  ...shapes(64, [8], { ...neox, sinks: true }),
  ...shapes(64, [8], { ...neox, window: true, sinks: true }),
  // Small heads in all modes.
  ...[interleaved, neox, qkNorm, { ...neox, sinks: true }].flatMap((traits) => [
    ...shapes(32, [2], traits),
    ...shapes(32, [2], { ...traits, window: true }),
  ]),
  ...[neox, { ...neox, sinks: true }].flatMap((traits) => [
    ...shapes(32, [2], { ...traits, isUnrotated: true }),
    ...shapes(32, [2], { ...traits, window: true, isUnrotated: true }),
  ]),
  // The fixtures.
  ...shapes(16, [2], { ...interleaved, isShort: true }),
  ...shapes(32, [8], { ...interleaved, isShort: true }),
  ...shapes(16, [2], { ...neox, isShort: true }),
  ...shapes(32, [1], { ...neox, isShort: true, window: true }),
  ...shapes(16, [2], { ...qkNorm, isShort: true, window: true }),
  ...shapes(64, [2], { ...neox, isShort: true, isUnrotated: true }),
];

/** Heads of other published models. Their sizes are listed in one mode each. */
const otherShapes: readonly HeadShape[] = [
  // Llama, Mistral, SmolLM2 and 3, Granite.
  ...shapes(64, [1, 4, 8], interleaved),
  ...shapes(128, [1, 3, 8], interleaved),
  // Qwen2.5.
  ...shapes(128, [5, 6, 7], neox),
  // LFM2, Qwen3.5, Gemma 3 and 4.
  ...shapes(64, [3, 4], qkNorm),
  ...shapes(256, [6], qkNorm),
  ...shapes(128, [2], { ...qkNorm, window: true }),
  ...shapes(256, [2, 4], { ...qkNorm, window: true }),
  ...shapes(256, [2, 4], { ...qkNorm, window: true, maxTile: 1 }),
];

/** Bidirectional heads of BERT models, EmbeddingGemma, and the fixtures. */
const encoderShapes: readonly HeadShape[] = [
  ...shapes(32, [1], neox),
  ...shapes(64, [1], neox),
  ...shapes(256, [3], { ...neox, window: true }),
  ...shapes(16, [1], neox),
  ...shapes(16, [2], { ...neox, window: true }),
];

const modelOf = ({ headDim, shared }: HeadShape): AttentionModel => ({ heads: shared, kvHeads: 1, headDim });

const windowsOf = ({ window = false }: HeadShape): boolean[] => (window ? [false, true] : [false]);

/** How a plan decodes on an adapter; the usual mode last. Where a window is not needed, the context is too short for splits. */
const decodeModes = (caps: AdapterCaps, shape: HeadShape): DecodeMode[] =>
  windowsOf(shape).flatMap((window) =>
    (shape.isShort || window !== (shape.window ?? false) ? [false] : [true, false]).map((split) => ({
      split,
      window,
      sinks: shape.sinks ?? false,
      ...(!shape.isUnrotated && rotatesInAttention(caps, shape.headDim)
        ? { rope: shape.rope, qkNorm: shape.qkNorm ?? false }
        : {}),
    })),
  );

/** Attention does not depend on other capabilities. */
const adapters = () =>
  adapterCaps().filter((caps) => !(caps.f16 || caps.matrix || caps.hasSmallWorkgroupMemory));

const decodeVariantsOf = (list: readonly HeadShape[], maxModes = 4) =>
  adapters().flatMap((caps) =>
    list.flatMap((shape) =>
      decodeModes(caps, shape)
        .slice(-maxModes)
        .map(
          (mode) =>
            chooseFlashDecode(caps, modelOf(shape), mode) ??
            chooseDecodeAttention(caps, modelOf(shape), mode),
        ),
    ),
  );
const isFlash = (variant: DecodeAttentionVariant): variant is FlashDecodeVariant => 'KEY_LANES' in variant;

/**
 * Few GPUs have subgroups this small, and a lane has many elements of a head there: a software adapter compiles a variant with
 * large heads for half a minute. So only small heads are listed, and a variant for each path.
 */
const isNarrowFlash = ({ LANES }: FlashDecodeVariant) => LANES < 32;
const maxNarrowHead = 32;

const wideVariantsOf = (list: readonly HeadShape[], maxModes = 2) =>
  adapters().flatMap((caps) =>
    list.flatMap(({ sinks = false, maxTile, ...shape }) =>
      windowsOf(shape)
        .slice(-maxModes)
        .map((window) =>
          chooseWideAttention(caps, modelOf(shape), { window, sinks, ...(maxTile && { maxTile }) }),
        ),
    ),
  );

/** Heads of any model, the smallest first. */
const anyShapes = lazily((): readonly HeadShape[] =>
  cartesianProduct({
    headDim: Array.from({ length: 64 }, (_, index) => 8 * (index + 1)),
    shared: Array.from({ length: 8 }, (_, index) => index + 1),
    rope: ['neox' as const],
    isUnrotated: [false, true],
    tile: [{}, { maxTile: 1 }],
  })
    .map(({ tile, ...shape }) => ({ ...shape, ...tile }))
    .sort((a, b) => a.headDim * a.shared - b.headDim * b.shared),
);

/** Variants of supported models, and for each path that none of them takes, the smallest variant that takes it. */
function withEveryPath<V extends AttentionVariant>(
  supported: readonly V[],
  others: readonly V[],
  pathOf: (variant: V) => string,
): V[] {
  const missing = new Map(others.toReversed().map((variant) => [pathOf(variant), variant]));
  for (const variant of supported) missing.delete(pathOf(variant));
  return distinctVariants([...supported, ...missing.values()]);
}

const supportedDecodeVariants = lazily(() => [
  ...decodeVariantsOf(listedShapes),
  ...decodeVariantsOf(otherShapes, 1),
]);
const decodeVariants = lazily(() =>
  withEveryPath(
    supportedDecodeVariants().filter((variant) => !isFlash(variant)),
    decodeVariantsOf(anyShapes()).filter((variant) => !isFlash(variant)),
    registersPath,
  ),
);
const flashVariants = lazily(() =>
  withEveryPath(
    supportedDecodeVariants()
      .filter(isFlash)
      .filter((variant) => !isNarrowFlash(variant) || variant.HEAD_DIM <= maxNarrowHead),
    decodeVariantsOf(anyShapes()).filter(isFlash),
    flashPath,
  ),
);
const prefillVariants = lazily(() =>
  withEveryPath(
    [...wideVariantsOf(listedShapes), ...wideVariantsOf(otherShapes, 1)],
    wideVariantsOf(anyShapes()),
    registersPath,
  ),
);
const encoderVariants = lazily(() =>
  withEveryPath(
    wideVariantsOf(encoderShapes),
    wideVariantsOf(anyShapes().filter(({ maxTile }) => maxTile === undefined)),
    registersPath,
  ),
);

/** What the modes of variants differ in: flags that switch on parts of the source, apart from the sizes. */
export const attentionModes = ['WINDOW', 'SINKS', 'SPLIT', 'NEOX', 'QK_NORM'] as const;

const wideModePath = ({ SUBGROUPS, WINDOW, SINKS }: AttentionVariant): string =>
  `mode ${JSON.stringify({ SUBGROUPS, WINDOW, SINKS })}`;

const decodeModePath = (variant: DecodeAttentionVariant): string => {
  const { SPLIT, ROPE, NEOX, QK_NORM } = variant;
  return `${wideModePath(variant)} ${JSON.stringify({ SPLIT, ROPE, NEOX, QK_NORM })}`;
};

const oneOrMore = (count: number): string => (count === 1 ? 'one' : 'more');

/**
 * Path of the kernels that share `lib/attention.wgsl`, apart from what the mode switches on. Sizes are bounds of loops and divisors
 * of indices, so the path depends on which loops take one turn, and on which lanes take part in the last one.
 */
function registersPath(variant: AttentionVariant): string {
  const { SUBGROUPS, LANES, HEAD_DIM, TILE, GROUP } = variant;
  const eights = HEAD_DIM / 8;
  const isRotating = variant['ROPE'] === true;
  return `registers ${JSON.stringify({
    SUBGROUPS,
    LANES,
    pairsInLane: oneOrMore(HEAD_DIM / LANES / 2),
    tokens: oneOrMore(TILE),
    heads: oneOrMore(GROUP),
    isRotating,
    // Lanes that write the key of the token, eight elements each.
    ...(isRotating
      ? { writers: eights % LANES === 0 ? 'all' : eights < LANES ? 'some' : 'all, then some' }
      : {}),
  })}`;
}

/** Path of `attention_flash_decode.wgsl`, apart from what the mode switches on. */
function flashPath({ LANES, KEY_LANES, SUBS, HEAD_DIM, GROUP, ROPE }: FlashDecodeVariant): string {
  const rows = GROUP + 2;
  const chunks = HEAD_DIM / 8 / KEY_LANES;
  return `flash ${JSON.stringify({
    LANES,
    keyLanes: KEY_LANES === LANES ? 'all' : oneOrMore(KEY_LANES),
    // With three and more, a lane reads one position in each turn.
    chunks: Math.min(chunks, 3),
    heads: oneOrMore(GROUP),
    isRotating: ROPE,
    // Subgroups prepare queries, key and value in rounds; in the last one, some may have nothing to do.
    ...(ROPE ? { rounds: oneOrMore(Math.ceil(rows / SUBS)), isLastFull: rows % SUBS === 0 } : {}),
  })}`;
}
