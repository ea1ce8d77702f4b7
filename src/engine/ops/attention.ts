/** Attention over the pages of a sequence, or over whole sequences. */
import { chooseWideAttention, decodeOptions, wideTileOptions } from '../../../kernels/attention-choices.ts';
import {
  attentionCombine,
  decodeAttention,
  encoderAttention,
  flashDecodeAttention,
  prefillAttention,
} from '../../../kernels/attention.ts';
import {
  attentionLayers,
  contextClasses,
  headsOf,
  measuredPosition,
  measuredPrompts,
  positionName,
  promptName,
  splitName,
  splitOptions,
  splitSubject,
  tileName,
  wideSubject,
} from '../execution/attention-tiling.ts';
import { activation, optionsOf, planFastest } from '../execution/measured-choice.ts';
import { decodeStep, promptStep } from '../execution/measured-steps.ts';
import type { StepDims } from '../../../kernels/define.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import {
  kernelCaps,
  type PlanContext,
  rotationOf,
  separatesDecodeRows,
  strideOf,
  tilingOf,
  vectorOf,
  windowOf,
} from '../execution/plan-context.ts';
import { loopLimit, planDispatch, type PlannedDispatch, singleOption } from '../execution/plan-dispatch.ts';
import type { FusedOp } from '../graph/fusion.ts';
import { layerShape, type UnitBase } from '../graph/graph.ts';
import { pageBuffersOf } from '../memory/memory.ts';
import { stackKey } from '../graph/stack-key.ts';
import { type BindingSite, f16Bytes, type LabInputs, type Op, unitCost } from './op.ts';

/** Attention parameters that differ between the layers of a model. */
export interface AttentionTraits {
  /** Index into the shape's `ropes`; undefined for no rotation. */
  readonly rope: number | undefined;
  /**
   * Number of positions that a query attends to, including its own; in bidirectional attention, the number in each
   * direction, including its own; 0 for all.
   */
  readonly window: number;
  /** Factor for attention scores. */
  readonly scale: number;
  /** Name of a vector with one attention sink logit for each head, which takes part in the softmax. */
  readonly sinks?: string;
}

export interface AttentionUnit extends UnitBase, AttentionTraits {
  readonly op: 'attention';
  readonly layer: number;
  /** Index into the shape's caches: the layer's own cache, or that of an earlier layer. */
  readonly cache: number;
}

export const attention: Op<AttentionUnit> = {
  plan: planAttention,
  hasChoices: true,
  vectors: ({ sinks }, { headNorms = [] }) => [headNorms, [sinks ?? []].flat()],
  cost(unit, { tokens, position, layer: { heads, kvHeads, headDim } }) {
    // Token i attends to position + i + 1 keys, or to a window; at best, the cache is read once for each tile.
    const window = unit.window || Number.POSITIVE_INFINITY;
    const keys = tokens * Math.min(position + (tokens + 1) / 2, window);
    return unitCost(4 * heads * headDim * keys, 2 * tokens * heads * headDim, {
      cacheBytes: Math.min(position + tokens, window + tokens - 1) * 2 * kvHeads * headDim * f16Bytes,
    });
  },
  bind(unit, { node, boundKernel, replace }) {
    if (unit.sinks !== undefined)
      throw new Error('its heads have attention sinks, which the contract does not support');
    return boundKernel ? [replace(node, boundKernel, attentionSite(unit))] : [unit];
  },
};

/** Buffers of a lab kernel that reads or writes a cache. */
export function pagedBuffers({ memory }: PlanContext, cache: number | undefined): LabInputs['buffers'] {
  const { k, v } = pageBuffersOf(memory, cache ?? -1);
  return {
    qkv: memory.buffers.qkv,
    token: { buffer: memory.step, offset: memory.layout.tokens },
    page_table: memory.pageTable,
    k_cache: k,
    v_cache: v,
  };
}

/** Tensors of a lab kernel of `attention`. */
const attentionSite = (unit: AttentionUnit): BindingSite => ({
  inputs(context) {
    const { memory, graph } = context;
    const { heads, kvHeads, headDim } = layerShape(graph.shape, unit.layer);
    const dims = { heads, kv_heads: kvHeads, head_dim: headDim };
    return [
      {
        buffers: { ...pagedBuffers(context, unit.cache), out: memory.buffers.context },
        params: {
          ...dims,
          max_pages: memory.maxPages,
          page: pageTokens,
          scale: unit.scale,
          window: windowOf(context, unit),
        },
        dims,
      },
    ];
  },
});

/** Position of a short context in which decoding is measured. */
const measuredShort = 128;

async function planAttention(
  context: PlanContext,
  unit: AttentionUnit,
  { appliesRope = false, writesCache = true, headNorms }: FusedOp,
): Promise<PlannedDispatch[]> {
  const { memory, graph } = context;
  const { eps } = graph.shape;
  const layer = layerShape(graph.shape, unit.layer);
  const { heads, kvHeads, headDim } = layer;
  const { rotary, style, table } = rotationOf(context, unit.rope);
  const window = windowOf(context, unit);
  const cache = pageBuffersOf(memory, unit.cache);
  const outStride = strideOf(context, 'context', unit.layer);
  const buffers = {
    qkv: memory.buffers.qkv,
    page_table: memory.pageTable,
    k_cache: cache.k,
    v_cache: cache.v,
    table,
    norm_weight: headNorms ? vectorOf(context, stackKey(headNorms)) : memory.dummyRead,
    sinks: unit.sinks === undefined ? memory.dummyRead : vectorOf(context, unit.sinks),
  };
  const mode = { window: window > 0, sinks: unit.sinks !== undefined };
  const params = {
    heads,
    kv_heads: kvHeads,
    max_pages: memory.maxPages,
    out_stride: outStride,
    scale: unit.scale,
    loop_limit: loopLimit,
    window,
  };
  const out = memory.buffers.context;
  const wideTiles = { buffer: memory.step, offset: memory.layout.wideTiles, size: memory.wideTilesBytes };
  const { collect, ...own } = context;
  const { tileTokens, splits } = tilingOf(context);
  const headsName = headsOf(layer);
  const output = activation(context, 'context');
  const attendWide = (id: string, kernel: typeof prefillAttention) => {
    const planTile = (by: PlanContext, tile: number) =>
      planDispatch(
        by,
        id,
        singleOption(
          kernel,
          chooseWideAttention(kernelCaps(context, kernel.source), layer, { ...mode, tile }),
        ),
        params,
        { ...buffers, tiles: wideTiles, out },
      );
    const tiles = wideTileOptions(context.gpu.caps, attentionLayers(graph.shape));
    if (tiles.length > 1 && !mode.window) {
      collect?.({
        subject: wideSubject(headsName),
        steps: measuredPrompts(graph.shape, memory).map((prompt) =>
          promptStep(context, promptName(prompt), prompt),
        ),
        output,
        options: tiles.map((tile) => ({
          name: tileName(tile),
          tiling: { tileTokens: tile, splits },
          dispatches: async () => [await planTile(own, tile)],
        })),
      });
    }
    return planTile(context, tileTokens);
  };
  const { embedding } = graph.shape;
  if (embedding) {
    return [await attendWide(unit.id, embedding.bidirectional ? encoderAttention : prefillAttention)];
  }
  const singleTiles = {
    buffer: memory.step,
    offset: memory.layout.singleTiles,
    size: memory.singleTilesBytes,
  };
  const splitTiles = { buffer: memory.step, offset: memory.layout.splitTiles, size: memory.splitTilesBytes };
  // Parts of a context are compared as they are, before they are combined. Those that were not written keep what they had.
  const partialOutput = {
    buffer: memory.partial,
    words: ({ splitTiles: tiles }: StepDims) => tiles * heads * memory.maxSplits * (headDim + 2),
  };
  const classes = contextClasses(memory);
  const attendSingle = (by: PlanContext, id: string, split: boolean, writes: boolean) => {
    const decodeMode = {
      ...mode,
      split,
      ...(appliesRope ? { rope: style, qkNorm: headNorms !== undefined } : {}),
    };
    const flashCaps = kernelCaps(context, flashDecodeAttention.source);
    const decodeCaps = kernelCaps(context, decodeAttention.source);
    const { flash, registers } = decodeOptions(decodeCaps, layer, decodeMode, flashCaps);
    const positions = split
      ? classes.filter((from) => from >= (splits[0]?.from ?? 0)).map((from) => measuredPosition(memory, from))
      : [measuredShort, Math.min(memory.splitTokens, memory.capacity.context) - 1];
    return planFastest(
      by,
      id,
      {
        subject: `${split ? 'parts' : 'whole'} of contexts, ${headsName}${mode.window ? `, window ${window}` : ''}`,
        steps: [...new Set(positions)].map((position) => decodeStep(positionName(position), position)),
        options: [...optionsOf(flashDecodeAttention, flash), ...optionsOf(decodeAttention, registers)],
        output: split ? partialOutput : output,
      },
      {
        ...params,
        max_splits: split ? memory.maxSplits : 1,
        rotary,
        eps,
        writes: Number(writes),
        v_norm: Number(headNorms?.length === 3),
      },
      { ...buffers, tiles: split ? splitTiles : singleTiles, out: split ? memory.partial : out },
    );
  };
  // Consecutive tokens of a sequence read keys that the same dispatch writes. When all are written, the same pipeline
  // runs again and reads them, so the results are bit for bit those of tokens decoded one by one.
  const runsAgain = appliesRope && writesCache && separatesDecodeRows(context);
  const attendSingles = (id: string, split: boolean) => [
    attendSingle(context, id, split, writesCache),
    ...(runsAgain ? [attendSingle(context, `${id}.again`, split, false).then(onlyConsecutiveTiles)] : []),
  ];
  const combine = (by: PlanContext) =>
    planDispatch(
      by,
      `${unit.id}.combine`,
      singleOption(attentionCombine, { WG: 64, SINKS: mode.sinks }),
      { heads, head_dim: headDim, max_splits: memory.maxSplits, out_stride: outStride, window },
      { partial: memory.partial, tiles: splitTiles, out, sinks: buffers.sinks },
    );
  for (const from of mode.window ? [] : classes) {
    const position = measuredPosition(memory, from);
    collect?.({
      subject: splitSubject(headsName),
      steps: [decodeStep(positionName(position), position)],
      output,
      options: splitOptions(memory, from).map((tokens) => ({
        name: splitName(tokens),
        tiling: { tileTokens, splits: tokens === undefined ? [] : [{ from, tokens }] },
        dispatches: async () =>
          tokens === undefined
            ? [await attendSingle(own, unit.id, false, writesCache)]
            : [await attendSingle(own, `${unit.id}.split`, true, writesCache), await combine(own)],
      })),
    });
  }
  const dispatches = [...attendSingles(unit.id, false), attendWide(`${unit.id}.wide`, prefillAttention)];
  // Contexts that are not split need no split kernel, so none is compiled.
  if (splits.some(({ from }) => from < memory.capacity.context))
    dispatches.push(...attendSingles(`${unit.id}.split`, true), combine(context));
  return Promise.all(dispatches);
}

/** The same dispatch, only in steps with consecutive tiles of one token. */
const onlyConsecutiveTiles = (dispatch: PlannedDispatch): PlannedDispatch => ({
  ...dispatch,
  choices: dispatch.choices.map((choice) => ({
    ...choice,
    grid: (dims) => (dims.hasConsecutiveTiles ? choice.grid(dims) : [0, 0, 0]),
  })),
});
