/** Selects the variants of attention for an adapter and the heads of a model. */
import type { AdapterCaps } from './define.ts';
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

export interface AttentionModel {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

/** Maximum tokens of a wide tile and heads of a workgroup, when `heads / kvHeads` query heads share a key head. */
export function attentionTile(model: AttentionModel): { tile: number; group: number } {
  const group = headGroup(model, 1);
  return { tile: Math.max(1, Math.floor(maxQueries(model.headDim) / group)), group };
}

/** Most heads of a workgroup whose tiles have `tile` tokens. */
function headGroup({ heads, kvHeads, headDim }: AttentionModel, tile: number): number {
  const headsPerKeyHead = heads / kvHeads;
  let group = Math.max(1, Math.min(headsPerKeyHead, Math.floor(maxQueries(headDim) / tile)));
  while (headsPerKeyHead % group !== 0) group -= 1;
  return group;
}

/**
 * Tokens of a wide tile that suit all of a model's layers, the default first: as many heads as share a key, or as many tokens as
 * a workgroup has room for, with fewer heads. A row has the same bits in all of them.
 */
export function wideTileOptions(
  { software }: Pick<AdapterCaps, 'software'>,
  layers: readonly AttentionModel[],
): readonly number[] {
  const least = Math.min(...layers.map((layer) => attentionTile(layer).tile));
  const most = Math.min(...layers.map(({ headDim }) => maxQueries(headDim)));
  // As many queries for each key take about as long there, and compiling a second kernel takes a second.
  const isFull = layers.every((layer) => headGroup(layer, least) * least === maxQueries(layer.headDim));
  return software && isFull ? [least] : [...new Set([least, most])];
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

/** What a decoding layer does besides attention. */
export interface DecodeMode {
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

/**
 * Variants with which an adapter may decode, the default first: flash decoding where it can run, else `chooseDecodeAttention`, which may
 * also be the faster one for short contexts. A GPU has them with one head in each workgroup as well, for more workgroups. On a software
 * adapter that took 1.2 to 2.3 times as long, on every context.
 * @param flashCaps the capabilities that flash decoding may use
 */
export function decodeOptions(
  caps: AdapterCaps,
  model: AttentionModel,
  mode: DecodeMode,
  flashCaps = caps,
): { flash: FlashDecodeVariant[]; registers: DecodeAttentionVariant[] } {
  const withGroups = <V extends AttentionVariant>(variant: V): V[] =>
    caps.software || variant.GROUP === 1 ? [variant] : [variant, { ...variant, GROUP: 1 }];
  const flash = chooseFlashDecode(flashCaps, model, mode);
  const registers = chooseDecodeAttention(caps, model, mode);
  return flash
    ? { flash: withGroups(flash), registers: [registers] }
    : { flash: [], registers: withGroups(registers) };
}

/** For prefill and, without `sinks`, for encoders. `tile`: one of `wideTileOptions`; default: that of the model. */
export function chooseWideAttention(
  caps: AdapterCaps,
  model: AttentionModel,
  { tile = attentionTile(model).tile, ...mode }: { window?: boolean; sinks?: boolean; tile?: number },
): AttentionVariant {
  return { ...commonVariant(caps, model, { ...mode, tile }), GROUP: headGroup(model, tile) };
}
