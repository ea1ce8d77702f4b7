/** Rotation of q and k, and the write of k and v to the cache. */
import { pageTokens, ropeKvWrite as kernel } from '../../../kernels/rope-kv-write.ts';
import { type PlanContext, rotationOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { FusedOp } from '../graph/fusion.ts';
import { layerShape, type UnitBase } from '../graph/graph.ts';
import { pageBuffersOf } from '../memory/memory.ts';
import { pagedBuffers } from './attention.ts';
import { type BindingSite, f16Bytes, type Op, unitCost } from './op.ts';

/** Without `rope`, k and v are written to the cache without rotation. */
export interface RopeKvWriteUnit extends UnitBase {
  readonly op: 'rope_kv_write';
  readonly layer: number;
  readonly rope: number | undefined;
  /** Index into the shape's caches;
  when undefined, only q is rotated and nothing is written. */
  readonly cache: number | undefined;
}

export const ropeKvWrite: Op<RopeKvWriteUnit> = {
  plan: planRope,
  cost(_, { tokens, layer: { heads, kvHeads, headDim } }) {
    const rotated = tokens * (heads + kvHeads) * headDim;
    const written = tokens * 2 * kvHeads * headDim;
    return unitCost(3 * rotated, 2 * rotated, { cacheBytes: written * f16Bytes });
  },
  bind(unit, { kernelFor, replace }) {
    if (unit.cache === undefined) {
      throw new Error(
        'this layer rotates queries only and uses the keys of another layer; the rope contract rotates both',
      );
    }
    return unit.nodes.map((one) => replace(one, kernelFor(one), rotationSite(unit)));
  },
  span: (unit) => (unit.nodes.length > 1 ? { op: 'rope_kv_write', site: rotationSite(unit) } : undefined),
};

/** Tensors of a lab kernel of `rope`, `kv_write` or both. */
const rotationSite = (unit: RopeKvWriteUnit): BindingSite => ({
  inputs(context) {
    const { memory, graph } = context;
    const { heads, kvHeads, headDim } = layerShape(graph.shape, unit.layer);
    const { rotary, style, table } = rotationOf(context, unit.rope);
    const dims = { heads, kv_heads: kvHeads, head_dim: headDim, rotary };
    return [
      {
        buffers: { ...pagedBuffers(context, unit.cache), table },
        params: { ...dims, neox: Number(style === 'neox'), max_pages: memory.maxPages, page: pageTokens },
        dims,
      },
    ];
  },
});

function planRope(
  context: PlanContext,
  unit: RopeKvWriteUnit,
  { promptOnly = false }: FusedOp,
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
    singleOption(kernel, {
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
