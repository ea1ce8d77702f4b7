/** Lists of the variants of attention that tests run: those of known models, and one for each path of the shaders. */
import {
  type AttentionModel,
  type AttentionVariant,
  chooseWideAttention,
  type DecodeAttentionVariant,
  type DecodeMode,
  decodeOptions,
  type FlashDecodeVariant,
  rotatesInAttention,
  wideTileOptions,
} from './attention-choices.ts';
import { type AdapterCaps, adapterCaps, cartesianProduct, distinctVariants, lazily } from './define.ts';

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
        .flatMap((mode) => {
          const { flash, registers } = decodeOptions(caps, modelOf(shape), mode);
          return [...flash, ...registers];
        }),
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
        .flatMap((window) =>
          (maxTile === undefined ? wideTileOptions(caps, [modelOf(shape)]) : [maxTile, 4]).map((tile) =>
            chooseWideAttention(caps, modelOf(shape), { window, sinks, tile }),
          ),
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
export const decodeVariants = lazily(() =>
  withEveryPath(
    supportedDecodeVariants().filter((variant) => !isFlash(variant)),
    decodeVariantsOf(anyShapes()).filter((variant) => !isFlash(variant)),
    registersPath,
  ),
);
export const flashVariants = lazily(() =>
  withEveryPath(
    supportedDecodeVariants()
      .filter(isFlash)
      .filter((variant) => !isNarrowFlash(variant) || variant.HEAD_DIM <= maxNarrowHead),
    decodeVariantsOf(anyShapes()).filter(isFlash),
    flashPath,
  ),
);
export const prefillVariants = lazily(() =>
  withEveryPath(
    [...wideVariantsOf(listedShapes), ...wideVariantsOf(otherShapes, 1)],
    wideVariantsOf(anyShapes()),
    registersPath,
  ),
);
export const encoderVariants = lazily(() =>
  withEveryPath(
    wideVariantsOf(encoderShapes),
    wideVariantsOf(anyShapes().filter(({ maxTile }) => maxTile === undefined)),
    registersPath,
  ),
);

/** What the modes of variants differ in: flags that switch on parts of the source, apart from the sizes. */
export const attentionModes = ['WINDOW', 'SINKS', 'SPLIT', 'NEOX', 'QK_NORM'] as const;

export const wideModePath = ({ SUBGROUPS, WINDOW, SINKS }: AttentionVariant): string =>
  `mode ${JSON.stringify({ SUBGROUPS, WINDOW, SINKS })}`;

export const decodeModePath = (variant: DecodeAttentionVariant): string => {
  const { SPLIT, ROPE, NEOX, QK_NORM } = variant;
  return `${wideModePath(variant)} ${JSON.stringify({ SPLIT, ROPE, NEOX, QK_NORM })}`;
};

const oneOrMore = (count: number): string => (count === 1 ? 'one' : 'more');

/**
 * Path of the kernels that share `lib/attention.wgsl`, apart from what the mode switches on. Sizes are bounds of loops and divisors
 * of indices, so the path depends on which loops take one turn, and on which lanes take part in the last one.
 */
export function registersPath(variant: AttentionVariant): string {
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
export function flashPath({ LANES, KEY_LANES, SUBS, HEAD_DIM, GROUP, ROPE }: FlashDecodeVariant): string {
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
