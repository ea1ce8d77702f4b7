/** Plans attention, and the rotation and cache write before it. */
import { attention, attentionCombine, chooseAttention } from '../../../kernels/attention.ts';
import { ropeKvWrite, pageTokens } from '../../../kernels/rope-kv-write.ts';
import type { FusedOp } from '../graph/fusion.ts';
import { layerShape, type Unit } from '../graph/graph.ts';
import { pageBuffersOf } from '../memory/memory.ts';
import {
  type BoundBuffer,
  type PlanContext,
  rotationOf,
  strideOf,
  vectorOf,
  windowOf,
} from './plan-context.ts';
import { singleOption, planDispatch, loopLimit, type PlannedDispatch } from './plan-dispatch.ts';
import { stackKey } from '../loading/weights.ts';

type UnitOf<Op extends Unit['op']> = Extract<Unit, { readonly op: Op }>;

export function planRope(
  context: PlanContext,
  unit: UnitOf<'rope_kv_write'>,
  promptOnly: boolean,
): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { heads, kvHeads, headDim } = layerShape(graph.shape, unit.layer);
  const { rotary, style, table } = rotationOf(context, unit.rope);
  // The layer uses keys and values of another one, so nothing is written; dummy buffers fill the bindings.
  const cache =
    unit.cache === undefined
      ? { k: memory.dummyWrite, v: memory.scratch }
      : pageBuffersOf(memory, unit.cache);
  return planDispatch(
    context,
    unit.id,
    singleOption(ropeKvWrite, {
      NEOX: style === 'neox',
      WG: 64,
      PAGE: pageTokens,
      PROMPT: promptOnly,
    }),
    {
      heads,
      kv_heads: kvHeads,
      head_dim: headDim,
      rotary,
      max_pages: memory.maxPages,
      writes: unit.cache === undefined ? 0 : 1,
    },
    {
      qkv: memory.buffers.qkv,
      table,
      page_table: memory.pageTable,
      k_cache: cache.k,
      v_cache: cache.v,
    },
  );
}

export async function planAttention(
  context: PlanContext,
  unit: UnitOf<'attention'>,
  { appliesRope = false, writesCache = true, headNorms }: FusedOp,
): Promise<PlannedDispatch[]> {
  const { memory, graph, gpu } = context;
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
  const sinks = unit.sinks !== undefined;
  const tile = memory.tileTokens;
  const rotation = appliesRope ? { rope: style, qkNorm: headNorms !== undefined } : {};
  const params = {
    heads,
    kv_heads: kvHeads,
    max_pages: memory.maxPages,
    out_stride: outStride,
    scale: unit.scale,
    loop_limit: loopLimit,
    rotary,
    eps,
    window,
    writes: Number(writesCache),
    v_norm: Number(headNorms?.length === 3),
  };
  const unsplit = { split_tokens: 0x7fffffff, max_splits: 1 };
  const splits = { split_tokens: memory.splitTokens, max_splits: memory.maxSplits };
  const singleTiles = {
    buffer: memory.step,
    offset: memory.layout.singleTiles,
    size: memory.singleTilesBytes,
  };
  const wideTiles = { buffer: memory.step, offset: memory.layout.wideTiles, size: memory.wideTilesBytes };
  const out = memory.buffers.context;
  const attend = (
    id: string,
    mode: Parameters<typeof chooseAttention>[2],
    tiling: { tiles: BoundBuffer; out: BoundBuffer; limits: typeof splits },
  ) =>
    planDispatch(
      context,
      id,
      singleOption(attention, chooseAttention(gpu.caps, layer, { ...mode, window: window > 0, sinks, tile })),
      { ...params, ...tiling.limits },
      { ...buffers, tiles: tiling.tiles, out: tiling.out },
    );
  const { embedding } = graph.shape;
  if (embedding) {
    const mode = { wide: true, bidirectional: embedding.bidirectional };
    return [await attend(unit.id, mode, { tiles: wideTiles, out, limits: unsplit })];
  }
  const dispatches = [
    attend(unit.id, rotation, { tiles: singleTiles, out, limits: unsplit }),
    attend(`${unit.id}.wide`, { wide: true }, { tiles: wideTiles, out, limits: unsplit }),
  ];
  // A context that fits in one split needs no split kernel, so none is compiled.
  if (memory.maxSplits > 1) {
    dispatches.push(
      attend(
        `${unit.id}.split`,
        { split: true, ...rotation },
        { tiles: singleTiles, out: memory.partial, limits: splits },
      ),
      planDispatch(
        context,
        `${unit.id}.combine`,
        singleOption(attentionCombine, { WG: 64, SINKS: sinks }),
        { heads, head_dim: headDim, ...splits, out_stride: outStride, window },
        { partial: memory.partial, tiles: singleTiles, out, sinks: buffers.sinks },
      ),
    );
  }
  return Promise.all(dispatches);
}
